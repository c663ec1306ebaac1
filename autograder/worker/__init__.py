"""The untrusted side: a zygote that has imported torch and no test, and the locked-down workers that it forks."""
