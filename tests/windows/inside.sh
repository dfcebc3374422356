#!/bin/sh
# inside.sh ARGUMENTS...: run Windows' Python in the folder of the project, inside the root folder.
export MESA_SHADER_CACHE_DISABLE=true  # Mesa would take the cache's folder, which Windows names, for a path of Linux
export WINEDLLOVERRIDES="mscoree,mshtml=;winedbg.exe=;ucrtbase,vcruntime140,vcruntime140_1,msvcp140=n,b"
export PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME='Z:\opt\cache'
cd /opt/project
# A file, because Python waits for ever on a pipe of Linux while another process of Wine holds it.
wine /opt/python/python.exe "$@" >/opt/python/output.txt 2>&1 </dev/null
