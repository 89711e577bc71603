"""kcc.kernels.torch_lm without the four seconds of its imports: forked from a process that has made them.

    torch_fork.py serve SOCKET        until standard input ends
    torch_fork.py run SOCKET ARGS…    torch_lm ARGS… with this program's streams, directory and exit code

Starting the kernel as users do, `python -m kcc.kernels.torch_lm`, is tested in tests/engines.
"""

import json
import os
import pathlib
import select
import signal
import socket
import sys


def run(path, arguments):
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        socket.send_fds(server, [json.dumps([os.getcwd(), *arguments]).encode()], [0, 1, 2])
        code = server.recv(1)
    return code[0] if code else 70  # the kernel crashed


def exit_code(main):
    try:
        main()
    except SystemExit as ended:
        if not isinstance(ended.code, str):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def handle(client, main):
    message, streams, _, _ = socket.recv_fds(client, 1 << 16, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    directory, *sys.argv[1:] = json.loads(message)
    os.chdir(directory)
    code = exit_code(main)
    sys.stdout.flush()
    sys.stderr.flush()
    client.sendall(bytes([code]))
    os._exit(code)


def serve(path):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
    from transformers import LlamaForCausalLM  # noqa: F401  what loading a checkpoint imports

    from kcc.kernels import torch_lm

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            client, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                handle(client, torch_lm.main)
            client.close()


if __name__ == "__main__":
    command, where, *rest = sys.argv[1:]
    sys.exit(run(where, rest) if command == "run" else serve(where))
