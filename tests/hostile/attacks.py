"""Hostile submissions to the toy course, by family. None may gain a mark in `double`, which none of them solves.

An attack that reads, writes or reaches out prints `TRIED` when it has run, and `BREACH` where it succeeded. `{root}` is
the grader's folder, `{submissions}` the folder of all submissions, `{outside}` a folder that anybody may write to,
`{port}` a port on which somebody listens.
"""

NEGATE = "def negate(x):\n    return -x\n"

# name: source. `negate` is right in each, so its mark must survive all that happens in a call of `double`.
IN_CALL = {
    "sleep": "import time\ndef double(x):\n    time.sleep(60)\n",
    "loop": "def double(x):\n    while True: pass\n",
    "loop_in_c": "import torch\ndef double(x):\n    a = torch.ones(3000, 3000)\n    while True: a @ a\n",
    "ignores_signals": """import signal
def double(x):
    for s in set(range(1, 32)) - {9, 19}: signal.signal(s, signal.SIG_IGN)
    while True: pass
""",
    "recursion": "import sys\ndef double(x):\n    sys.setrecursionlimit(10**9)\n    return double(x)\n",
    "memory_tensors": "import torch\ndef double(x):\n    kept = []\n    while True: kept.append(torch.ones(2**22))\n",
    "memory_python": "def double(x):\n    kept = []\n    while True: kept.append(bytes(2**20) + b'x')\n",
    "memory_shared_map": "import mmap\ndef double(x):\n    return mmap.mmap(-1, 2**34)\n",
    "fork_bomb": "import os\ndef double(x):\n    while True: os.fork()\n",
    "thread_bomb": """import threading, time
def double(x):
    while True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
""",
    "output_flood": "def double(x):\n    while True: print('x' * 10_000)\n",
    "exit": "import os\ndef double(x):\n    os._exit(0)\n",
    "sys_exit": "import sys\ndef double(x):\n    sys.exit(0)\n",
    "segmentation_fault": "import ctypes\ndef double(x):\n    ctypes.string_at(0)\n",
    "base_exception": "class Away(BaseException): pass\ndef double(x):\n    raise Away('gone')\n",
    "keyboard_interrupt": "def double(x):\n    raise KeyboardInterrupt\n",
    "str_hangs": """class Slow(Exception):
    def __str__(self):
        while True: pass
def double(x):
    raise Slow
""",
    "str_raises": "class Bad(Exception):\n    def __str__(self): raise Bad\ndef double(x):\n    raise Bad\n",
    "exception_group": "def double(x):\n    raise BaseExceptionGroup('many', [ValueError('a'), SystemExit(3)])\n",
    "surrogates": "def double(x):\n    raise ValueError('\\ud800' * 100 + '\\x1b[2J\\u202e')\n",
    "nan": "def double(x):\n    return x * float('nan')\n",
    "meta": "import torch\ndef double(x):\n    return torch.empty(x.shape, device='meta')\n",
    "sparse": "def double(x):\n    return (2 * x).to_sparse()\n",
    "quantized": "import torch\ndef double(x):\n    return torch.quantize_per_tensor(2 * x, 0.1, 0, torch.quint8)\n",
    "complex": "def double(x):\n    return (2 * x).to(dtype=__import__('torch').complex64)\n",
    "wrong_rank": "def double(x):\n    return (2 * x)[None]\n",
    "expanded": "def double(x):\n    return x[:1].expand(10**12)\n",
    "huge": "import torch\ndef double(x):\n    return torch.zeros(10**8, dtype=torch.uint8)\n",
    "nested": "def double(x):\n    r = []\n    for _ in range(10**5): r = [r]\n    return r\n",
    "many_parts": "def double(x):\n    r = []\n    r += [r, r]\n    return r\n",
    "equal_to_all": """import torch
class Equal(torch.Tensor):
    def __eq__(self, other): return torch.ones(self.shape, dtype=torch.bool)
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None): return True
def double(x):
    return x.as_subclass(Equal)
""",
    "lies_about_shape": """import torch
class Liar(torch.Tensor):
    shape = property(lambda self: torch.Size([3]))
def double(x):
    return torch.zeros(7).as_subclass(Liar)
""",
    "module_answer": "import torch\ndef double(x):\n    return torch.nn.Linear(3, 3)\n",
    "patched_torch": """import torch
def double(x):
    torch.equal = torch.allclose = lambda *a, **k: True
    torch.testing.assert_close = lambda *a, **k: None
    torch.Tensor.__eq__ = lambda a, b: True
    return x
""",
    "patched_pytest": """def double(x):
    import pytest, _pytest.runner
    pytest.fail = lambda *a, **k: None
    _pytest.runner.call_and_report = lambda *a, **k: None
    return x
""",
    "patched_json": """def double(x):
    import json
    json.dumps = lambda *a, **k: '[["answers", "", [["ok", true]]], []]'
    return x
""",
    "patched_builtins": """def double(x):
    import builtins
    builtins.isinstance = lambda *a: True
    builtins.len = lambda a: 3
    builtins.AssertionError = type('Nothing', (Exception,), {})
    return x
""",
    "patched_server": """def double(x):
    import sys
    for name, module in list(sys.modules.items()):
        if 'autograder' in name:
            for key in list(vars(module)):
                if not key.startswith('_'): setattr(module, key, lambda *a, **k: [["ok", True]])
    return x
""",
    "writes_to_descriptors": """import os
def double(x):
    for fd in range(64):
        try: os.write(fd, b'\\x01' * 100)
        except OSError: pass
    return x
""",
    "closes_descriptors": """import os
def double(x):
    os.closerange(0, 64)
    return x
""",
    "forges_a_frame": """import json, os, struct
def double(x):
    h = json.dumps([["answers", "00000000", [["ok", True]]], []]).encode()
    os.write(3, struct.pack("<II", len(h), 0) + h)
    return x
""",
    "forges_a_frame_with_the_nonce": """import gc, json, os, struct
def double(x):
    server = next(o for o in gc.get_objects() if type(o).__name__ == 'Server')
    h = json.dumps([["answers", server.nonce, [["ok", True]]], []]).encode()
    os.write(3, (struct.pack("<II", len(h), 0) + h) * 5)
    return x
""",
    "claims_a_huge_frame": "import os, struct\ndef double(x):\n    os.write(3, struct.pack('<II', 10, 2**32 - 1))\n",
    "deep_json": """import os, struct
def double(x):
    os.write(3, struct.pack('<II', 60000, 0) + b'[' * 60000)
""",
    "slow_drip": "import os, time\ndef double(x):\n    while True:\n        os.write(3, b'\\x01'); time.sleep(.1)\n",
    "calls_back_without_a_callback": """import gc
def double(x):
    server = next(o for o in gc.get_objects() if type(o).__name__ == 'Server')
    for i in range(10**6): server.send(['callback', server.nonce, i, [], {}])
""",
    "walks_frames_and_gc": """import gc, sys
def double(x):
    frame = sys._getframe()
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if type(value).__name__ in ('HiddenTest', 'PreparedSession', 'Verdict') or 'hidden test' in repr(value)[:500]:
                print('BREACH', repr(value)[:100])
        frame = frame.f_back
    secret = 'the hidden' + ' test of double'
    for o in gc.get_objects():
        if type(o) is dict and 'TestDouble' in o: print('BREACH', list(o)[:5])
        if type(o) is dict and o.get('SECRET') == secret: print('BREACH', secret)
    print('TRIED')
    return x
""",
    "kills_the_grader": """import os, signal
def double(x):
    for pid in (os.getppid(), 0, -1, -os.getpgid(0)):
        for s in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
            try:
                os.kill(pid, s); print('BREACH: kill', pid)
            except OSError: pass
    try:
        os.killpg(os.getpgid(os.getppid()), 9); print('BREACH: killpg')
    except OSError: pass
    print('TRIED')
    return x
""",
    "reads_files": """import os, glob
def double(x):
    places = ['{root}/tests_hidden', '{root}/solutions', '{root}', '{submissions}', '{outside}', '/etc', '/root', '/home', '/proc', '/tmp']
    for place in places:
        try: print('BREACH: list', place, os.listdir(place)[:3] if os.listdir(place) else 1 / 0)
        except (OSError, ZeroDivisionError): pass
    for path in ['{root}/tests_hidden/test_attention.py', '{root}/solutions/attention.py', '{root}/grading.toml', '/etc/passwd', '/etc/shadow',
                 '{submissions}/student01/toy.py', '{root}/tests/hostile/course/tests_hidden/test_toy.py', '/proc/1/environ', '/proc/self/environ']:
        try: print('BREACH: read', path, open(path).read()[:20])
        except OSError: pass
    secrets = {k: v for k, v in os.environ.items() if 'COURSE_SECRET' in k or 'PATH' == k}
    if secrets: print('BREACH: environment', secrets)
    print('TRIED')
    return x
""",
    "looks_into_proc": """import os
def double(x):
    for pid in [os.getppid(), 1, *range(2, 400)]:
        for name in ('environ', 'mem', 'maps', 'cmdline', 'fd', 'cwd', 'status'):
            try:
                path = f'/proc/{pid}/{name}'
                got = os.listdir(path) if name == 'fd' else os.readlink(path) if name == 'cwd' else open(path, 'rb').read(10)
                print('BREACH', path, got)
            except OSError: pass
    print('TRIED')
    return x
""",
    "writes_files": """import os
def double(x):
    for path in ['{outside}/x', '{root}/x', '{submissions}/student01/toy.py', '/dev/shm/x', '/var/tmp/x', '/etc/x', '/x', os.path.expanduser('~/../x')]:
        try:
            open(path, 'a').write('x'); print('BREACH: wrote', path)
        except OSError: pass
    for call in (lambda: os.symlink('/etc/passwd', '{outside}/l'), lambda: os.mkdir('{outside}/d'), lambda: os.mkfifo('{outside}/f'),
                 lambda: os.chmod('{outside}', 0), lambda: os.utime('{outside}', (0, 0)), lambda: os.chown('{outside}', os.getuid(), os.getgid()),
                 lambda: os.setxattr('{outside}', 'user.x', b'x'), lambda: os.truncate('{submissions}/student01/toy.py', 0), lambda: os.remove('{submissions}/student01/toy.py'), lambda: os.rename('{outside}', '{outside}2')):
        try:
            call(); print('BREACH: changed a file')
        except OSError: pass
    print('TRIED')
    return x
""",
    "fills_its_own_folder": """import os
def double(x):
    try:
        for i in range(10**5):
            with open(os.path.join(os.environ['TMPDIR'], str(i)), 'wb') as f: f.write(bytes(2**20))
    except OSError: pass
    return x
""",
    "uses_the_network": """import ctypes, os, socket
def double(x):
    for family in range(46):
        for kind in (1, 2, 3, 5):
            try:
                socket.socket(family, kind); print('BREACH: socket', family, kind)
            except OSError: pass
    try:
        socket.create_connection(('127.0.0.1', {port}), 1); print('BREACH: connected')
    except OSError: pass
    libc = ctypes.CDLL(None, use_errno=True)
    for name, number in {'io_uring_setup': 425, 'bpf': 321, 'memfd_create': 319, 'userfaultfd': 323, 'ptrace': 101, 'unshare': 272}.items():
        if libc.syscall(number, 0, ctypes.create_string_buffer(256), 0) >= 0: print('BREACH:', name)
    print('TRIED')
    return x
""",
    "starts_processes": """import os, subprocess
def double(x):
    for call in (lambda: subprocess.run(['/bin/true']), lambda: os.fork(), lambda: os.posix_spawn('/bin/true', ['true'], {}), lambda: os.execv('/bin/true', ['true'])):
        try:
            call(); print('BREACH: a process')
        except OSError: pass
    print('TRIED')
    return x
""",
    "raises_its_limits": """import os, resource
def double(x):
    for which in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
        try:
            resource.setrlimit(which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)); print('BREACH: limit', which)
        except (OSError, ValueError): pass
    for call in (lambda: os.setuid(0), lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19), lambda: os.sched_setaffinity(os.getppid(), [0])):
        try:
            call(); print('BREACH: privilege') if os.getuid() == 0 or call.__code__.co_names[1] != 'setuid' else None
        except OSError: pass
    print('TRIED')
    return x
""",
}

# These end, hang or break the file while it is loaded: nothing can be graded, and the student is told so.
AT_LOAD = {
    "loop_at_load": "while True: pass\n",
    "exit_at_load": "import os\nos._exit(0)\n",
    "flood_at_load": "while True: print('x' * 10_000)\n",
    "syntax_error": "def double(x:\n    return 2 * x\n",
    "deep_expression": "x = " + "-" * 100_000 + "1\n",
    "many_parentheses": "x = " + "(" * 5000 + ")" * 5000 + "\n",
    "null_byte": "x = 1\0\n",
    **{
        f"forges_the_loading_{i}": f"""
import json, os, struct, sys
frame = sys._getframe()
while frame is not None and 'self' not in frame.f_locals: frame = frame.f_back
while not hasattr(frame.f_locals.get('self'), 'nonce'): frame = frame.f_back
h = json.dumps([["answers", frame.f_locals['self'].nonce, {answer}], []]).encode()
os.write(3, struct.pack("<II", len(h), 0) + h)
"""
        for i, answer in enumerate(['[["ok", 5]]', "[]", '[["ok", None]]', '[["ok", {"d": []}]]', "[3]"])
    },
}
