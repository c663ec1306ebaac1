"""The frame of every page: one file, no script, nothing loaded from elsewhere, readable on a phone and in the dark."""

from __future__ import annotations

import html
import re

from autograder.report.table import number

# control characters but for line ends and tabs; marks that turn the direction of text; lone surrogates
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
STYLE = """
:root{color-scheme:light dark;--ink:#1c2024;--soft:#5c6670;--paper:#fdfdfc;--card:#fff;--line:#dfe3e6;--good:#1a7f5a;
--bad:#b3403a;--accent:#2f5fb3;--code:#f3f5f6}
@media(prefers-color-scheme:dark){:root{--ink:#e8eaec;--soft:#a0a9b1;--paper:#15181b;--card:#1d2125;--line:#343b41;
--good:#5cc79a;--bad:#f08b80;--accent:#8ab4f8;--code:#262b30}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:52rem;margin:0 auto;padding:1.5rem 1rem 4rem}
main.wide{max-width:76rem}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0 .25rem}
h2{font-size:1.2rem;margin:2.2rem 0 .6rem}h3{font-size:1rem;margin:0}
p{margin:.4rem 0}a{color:var(--accent)}.soft{color:var(--soft)}.num{text-align:right;font-variant-numeric:tabular-nums}
code,pre{font:.875em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
code{background:var(--code);padding:.1em .35em;border-radius:4px;overflow-wrap:anywhere}
pre{background:var(--code);padding:.7rem .9rem;border-radius:8px;overflow-x:auto;margin:.5rem 0;white-space:pre-wrap;
overflow-wrap:anywhere}
pre.code{white-space:pre}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:1rem 1.1rem;margin:.8rem 0}
.head{display:flex;gap:1rem;justify-content:space-between;align-items:baseline;flex-wrap:wrap}
.test{border-top:1px solid var(--line);padding:.7rem 0 .3rem;margin-top:.7rem}
.mark{display:inline-block;width:1.4em;font-weight:700}.good{color:var(--good)}.bad{color:var(--bad)}
.bar{height:6px;border-radius:3px;background:var(--line);overflow:hidden;min-width:3rem}
.bar i{display:block;height:100%;background:var(--accent)}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.94rem}
th,td{padding:.4rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;overflow-wrap:anywhere}
th{font-weight:600;color:var(--soft)}th.num{text-align:right}td.name{min-width:9rem}td.short{white-space:nowrap}
details>summary{cursor:pointer;color:var(--soft);margin-top:.6rem}
ul{padding-left:1.2rem;margin:.4rem 0}
svg{width:100%;height:auto;display:block;margin:.6rem 0}svg text{font:12px system-ui,sans-serif;fill:var(--soft)}
svg .mid{text-anchor:middle;dominant-baseline:middle}svg .end{text-anchor:end;dominant-baseline:middle}
svg .frame{fill:none;stroke:var(--line)}svg .ok{fill:var(--accent)}
svg .bad{fill:var(--bad);stroke:var(--bad);stroke-width:2}
svg .cross{stroke:var(--ink);stroke-width:2.4;fill:none}
@media print{body{background:#fff}.card{break-inside:avoid}}
"""


def page(title: str, body: str, wide: bool = False) -> str:
    """A whole HTML page."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    head += (
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><meta name="referrer" content="no-referrer">'
    )
    head += f"<title>{shown(title)}</title><style>{STYLE}</style>"
    width = ' class="wide"' if wide else ""
    return f'<!doctype html><html lang="en"><head>{head}</head><body><main{width}>{body}</main></body></html>\n'


def shown(text: str) -> str:
    """Any text, a student's too, as HTML text: nothing in it acts, and what would be invisible is visible."""
    return UNSEEN.sub(lambda m: f"⟨{ord(m.group()):X}⟩", html.escape(text))


def told(message: str) -> str:
    """A message: one line wraps, several are code or a traceback and keep their columns."""
    return f"<pre{' class=code' if chr(10) in message else ''}>{shown(message)}</pre>"


def bar(part: float, whole: float) -> str:
    """A share as a bar; the number stands beside it, so it is hidden from screen readers."""
    share = 0 if whole <= 0 else max(0.0, min(1.0, part / whole))
    return f'<div class="bar" aria-hidden="true"><i style="width:{share:.1%}"></i></div>'


def score(part: float, whole: float) -> str:
    return f"{number(part)} of {number(whole)}"
