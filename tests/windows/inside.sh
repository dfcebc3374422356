#!/bin/sh
# inside.sh ARGUMENTS...: run Windows' Python in the folder of the project, inside the root folder.
export MESA_SHADER_CACHE_DISABLE=true  # Mesa would take the cache's folder, which Windows names, for a path of Linux
export WINEDLLOVERRIDES="mscoree,mshtml=;winedbg.exe=;ucrtbase,vcruntime140,vcruntime140_1,msvcp140=n,b"
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 XDG_CACHE_HOME='Z:\opt\cache'
unset AWS_CA_BUNDLE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE SSL_CERT_FILE SSL_CERT_DIR  # files outside the root folder
busybox ip link set lo up  # a namespace of networks begins without it, and tests start servers
cd /opt/project
# A file, because Python waits for ever on a pipe of Linux while another process of Wine holds it.
wine /opt/python/python.exe "$@" >/opt/python/output.txt 2>&1 </dev/null
