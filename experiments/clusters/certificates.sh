#!/bin/bash
# Makes an authority and one certificate for all participants of a Dask cluster, for a year:
#
#     bash experiments/clusters/certificates.sh certificates
#     source certificates/use.sh
#
# Who can read key.pem can run code on the cluster. authority-key.pem is for further certificates; keep it elsewhere.
set -euo pipefail
folder=${1:?give a new folder for the certificates}
umask 077
mkdir "$folder"
cd "$folder"
openssl req -x509 -newkey rsa:3072 -nodes -days 365 -subj /CN=authority -keyout authority-key.pem -out authority.pem
openssl req -newkey rsa:3072 -nodes -subj /CN=airfl -keyout key.pem -out request.pem
openssl x509 -req -in request.pem -days 365 -CA authority.pem -CAkey authority-key.pem -CAcreateserial -out cert.pem
rm request.pem
cat > use.sh <<'END'
# Settings of Dask for these certificates; to be sourced.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE=$here/authority.pem
for who in SCHEDULER WORKER CLIENT; do
    export DASK_DISTRIBUTED__COMM__TLS__${who}__CERT=$here/cert.pem
    export DASK_DISTRIBUTED__COMM__TLS__${who}__KEY=$here/key.pem
done
END
