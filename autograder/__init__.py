"""An autograder that asks a submission questions and decides by properties; see docs/architecture.md."""
