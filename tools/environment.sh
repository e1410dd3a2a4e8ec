# shellcheck shell=bash
# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Finds what KokkosXent builds with: a Kokkos that is already there, or else a private Debian root.
# To be sourced from the top folder of the checkout.

program=tools/$(basename "$0")
checkout=$PWD
cache=${XDG_CACHE_HOME:-${HOME:-~}/.cache}/kokkosxent
kokkos_versions='4.6...<6' # as in CMakeLists.txt

source tools/debian_root.sh

environment_help() {
  cat <<'HELP'
A Kokkos that CMake finds is used as it is: one that `spack load` put into the environment, or named
by CMAKE_PREFIX_PATH or Kokkos_ROOT. Without one, a private Debian sid root with Kokkos 5.2 (OpenMP)
and Kokkos 5.0 (Serial) is made in the user's cache folder; this needs Debian or Ubuntu, root, 3 GB
of disk, and a network the first time. Removing that folder is safe: the next run makes it anew.

Environment variables:
  CMAKE_PREFIX_PATH, Kokkos_ROOT, CXX, CMAKE_GENERATOR
                              for a Kokkos that is there already, as CMake takes them
  KOKKOSXENT_ENVIRONMENT      native: only a Kokkos that is there; debian: only the private root
  XDG_CACHE_HOME              the private root and the compiler cache are in its folder kokkosxent
                              (default: ~/.cache)
  http_proxy, https_proxy     how the Debian archive is reached
  CMAKE_BUILD_PARALLEL_LEVEL  compile jobs (default: one for each core and 2 GB of free memory)
HELP
}

# One line of progress, with the time since the start.
say() {
  printf '%s %2d:%02d  %s\n' "$program" $((SECONDS / 60)) $((SECONDS % 60)) "$*"
}

# One line for each argument, then the end.
fail() {
  printf '%s: %s\n' "$program" "$1" >&2
  shift
  (($# == 0)) || printf '  %s\n' "$@" >&2
  exit 1
}

# logged LOG COMMAND...: output goes to the file; its end is shown when the command fails.
logged() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  if "$@" >"$log" 2>&1 </dev/null; then return 0; fi
  tail -n 40 "$log" >&2
  printf '%s: the whole output is in %s\n' "$program" "$log" >&2
  return 1
}

# Waits until no other run works in this checkout; the lock ends with this process.
lock_checkout() {
  mkdir -p build
  exec {checkout_lock}>build/.lock
  flock --nonblock "$checkout_lock" && return
  say "waiting for another run in this checkout to end"
  flock "$checkout_lock"
}

compile_jobs() {
  local memory_jobs
  memory_jobs=$(awk '/^MemAvailable/ { print int($2 / 2e6) }' /proc/meminfo)
  ((memory_jobs >= 1)) || memory_jobs=1
  echo "${CMAKE_BUILD_PARALLEL_LEVEL:-$((memory_jobs < $(nproc) ? memory_jobs : $(nproc)))}"
}

# prepare_environment PACKAGE...: sets $environment to native or debian, with these CMake packages
# there besides Kokkos.
prepare_environment() {
  case ${KOKKOSXENT_ENVIRONMENT:-} in
    debian) environment=debian ;;
    '' | native) choose_environment "$@" ;;
    *) fail "KOKKOSXENT_ENVIRONMENT must be native or debian, not $KOKKOSXENT_ENVIRONMENT" ;;
  esac
  if [[ $environment == debian ]]; then prepare_debian_root; fi
}

choose_environment() {
  say "looking for a Kokkos that is already here"
  local found
  found=$(find_native_kokkos "$@")
  if [[ $found == Kokkos* ]]; then
    environment=native
    say "using ${found%%$'\n'*}"
    native_kokkos_folder=$(sed -n 's/^Kokkos .* in //p' <<<"$found")
    install_missing_packages "$found"
  elif [[ ${KOKKOSXENT_ENVIRONMENT:-} == native ]]; then
    fail "CMake finds no Kokkos in its versions $kokkos_versions;" "$(spack_advice)"
  else
    environment=debian
    say "none found"
  fi
}

# Prints a line "Kokkos VERSION (DEVICES) in FOLDER" where there is a usable one, and then a line
# "missing PACKAGE" for each package that is not there.
find_native_kokkos() {
  command -v cmake >/dev/null || return 0
  local probe
  probe=$(mktemp -d)
  cat >"$probe/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.22)
project(probe LANGUAGES CXX)
find_package(Kokkos $kokkos_versions REQUIRED)
file(WRITE result "Kokkos \${Kokkos_VERSION} (\${Kokkos_DEVICES}) in \${Kokkos_DIR}\n")
foreach(package $*)
  find_package(\${package} QUIET)
  if(NOT \${package}_FOUND)
    file(APPEND result "missing \${package}\n")
  endif()
endforeach()
CMAKE
  cmake -S "$probe" -B "$probe/build" &>/dev/null || true
  cat "$probe/result" 2>/dev/null || true
  rm -rf "$probe"
}

# The packages that find_native_kokkos reported missing come from Debian where that is possible.
install_missing_packages() {
  local missing debian_packages=() spack_packages=()
  missing=$(sed -n 's/^missing //p' <<<"$1")
  [[ -n $missing ]] || return 0
  local -A debian_names=([GTest]=libgtest-dev [benchmark]=libbenchmark-dev
    [nlohmann_json]=nlohmann-json3-dev)
  local -A spack_names=([GTest]=googletest [benchmark]=benchmark [nlohmann_json]=nlohmann-json)
  local package
  for package in $missing; do
    debian_packages+=("${debian_names[$package]}")
    spack_packages+=("${spack_names[$package]}")
  done
  if is_debian && is_root; then
    host_install "${debian_packages[@]}"
  else
    fail "besides Kokkos these CMake packages are needed and not found:" "$missing" \
      "spack install ${spack_packages[*]}" "spack load ${spack_packages[*]}" "then run $program again"
  fi
}

spack_advice() {
  cat <<ADVICE
install one with Spack, load it, and run $program again:
    spack install kokkos+openmp googletest benchmark nlohmann-json
    spack load kokkos googletest benchmark nlohmann-json
  or name the folder of an installed Kokkos in CMAKE_PREFIX_PATH
ADVICE
}

is_root() {
  ((EUID == 0))
}

is_debian() {
  command -v apt-get >/dev/null && grep -qsE '^ID(_LIKE)?=.*(debian|ubuntu)' /etc/os-release
}

# Installs packages by name on this machine; a fresh machine has no package lists yet.
host_install() {
  say "installing by name on this machine: $*"
  mkdir -p "$cache/log"
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300
    install --yes --no-install-recommends "$@")
  "${install[@]}" &>"$cache/log/host-packages.log" </dev/null && return
  logged "$cache/log/host-update.log" apt-get -o DPkg::Lock::Timeout=300 update || true
  logged "$cache/log/host-packages.log" "${install[@]}" ||
    fail "apt-get could not install $*" "is there a network?"
}

# Runs a command in the environment, in the top folder of the checkout.
in_environment() {
  if [[ $environment == debian ]]; then in_debian_root "$@"; else "$@"; fi
}

# The private root sees the checkout under another path, so its build folders are its own.
build_folder() {
  if [[ $environment == debian ]]; then echo "build/debian-$1"; else echo "build/$1"; fi
}

# configure NAME KOKKOS CMAKE_ARGUMENT...: KOKKOS is openmp or serial, which of the root's two.
configure() {
  local folder kokkos=()
  folder=$(build_folder "$1")
  if [[ $environment == native ]]; then
    kokkos=("-DKokkos_DIR=$native_kokkos_folder")
  else
    discard_outdated_build "$folder"
    [[ $2 != serial ]] || kokkos=("-DCMAKE_PREFIX_PATH=$kokkos_serial_prefix/usr")
  fi
  logged "$folder/configure.log" in_environment \
    cmake -S . -B "$folder" "${kokkos[@]}" "${@:3}"
}

# build NAME: shown as it goes on a terminal, kept in a log elsewhere.
build() {
  local folder command
  folder=$(build_folder "$1")
  command=(in_environment cmake --build "$folder" --parallel "$(compile_jobs)")
  if [[ -t 1 ]]; then "${command[@]}"; else logged "$folder/build.log" "${command[@]}"; fi
}
