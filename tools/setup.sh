#!/bin/sh
# Runs tools/bootstrap.py under the first Python >= 3.8 that really starts: a pyenv shim can be on
# PATH and still exit 127. The bootstrap itself looks for the Python that the project needs.
here=$(dirname "$0")

for python in python3 /usr/bin/python3 /usr/local/bin/python3 python3.12 python3.10 python \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[0-9]*/bin/python; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1 </dev/null; then
        exec "$python" "$here/bootstrap.py" "$@"
    fi
done

if uv --version >/dev/null 2>&1; then
    exec uv run --no-project --python 3.12 python "$here/bootstrap.py" "$@"
fi

cat >&2 <<'END'
error: no python3 (3.8 or later) starts on this machine, and uv is not installed. Do one of:
    apt-get install python3 python3-venv     Debian, Ubuntu
    dnf install python3.12                   Fedora, RHEL
    pyenv install 3.12 && pyenv global 3.12
then run the same command again.
END
exit 1
