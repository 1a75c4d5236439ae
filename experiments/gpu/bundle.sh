#!/usr/bin/env bash
# Collect what a bare GPU machine lacks for airfl, as wheels for Python 3.12 (or VERSION) on Linux x86_64, with a script that installs
# them there.
#     experiments/gpu/bundle.sh FOLDER                    here, where there is a package index
#     sh FOLDER/install.sh TARGET                         there, without one; then, from a clone of airfl:
#     PYTHONPATH=TARGET python experiments/benchmarks/gpu.py --out OUT
# The machine is expected to have torch, numpy, scipy, h5py, xarray, pandas, rich and typer, and what these need. Left out is what
# only figures, reports, Sionna's channels and clusters need: matplotlib, plotly, pyarrow, sionna, dask.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:?usage: bundle.sh FOLDER}
most_mib=40
version=${VERSION:-3.12} # of Python there

packages=(
    pydantic pydantic-core annotated-types typing-inspection typing-extensions # settings
    platformdirs                                                               # the cache folder
    cloudpickle                                                                # sweeps
    tomli-w                                                                    # settings that are written
    dp-accounting absl-py attrs dm-tree mpmath                                 # Renyi accountants
)

mkdir -p "$folder"
rm -f "$folder"/*.whl
"${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --python-version "$version" --implementation cp --abi "cp${version/./}" --abi abi3 --abi none \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --platform any \
    -c "$root/constraints.txt" -d "$folder" "${packages[@]}"

cat >"$folder/install.sh" <<'INSTALL'
#!/bin/sh
# Install the wheels of this folder into a folder for PYTHONPATH: sh install.sh TARGET
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=${1:?usage: install.sh TARGET}
python=${PYTHON:-python3}
mkdir -p "$target"
"$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --upgrade --target "$target" "$here"/*.whl ||
    "$python" -c '
import sys, zipfile  # a wheel is an archive of what belongs into the folder
for wheel in sys.argv[2:]:
    zipfile.ZipFile(wheel).extractall(sys.argv[1])
' "$target" "$here"/*.whl
echo "installed into $target; use it by PYTHONPATH=$target"
INSTALL

bytes=$(du -sb "$folder" | cut -f1)
echo "$(find "$folder" -name '*.whl' | wc -l) wheels, $((bytes / 1048576)).$((bytes % 1048576 * 10 / 1048576)) MiB in $folder"
if [ "$bytes" -ge $((most_mib * 1048576)) ]; then
    echo "bundle.sh: more than $most_mib MiB" >&2
    exit 1
fi
