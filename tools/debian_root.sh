# shellcheck shell=bash
# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# A private Debian sid root in the user's cache folder, with two builds of Kokkos:
#   OpenMP: libkokkos-dev, where CMake looks by itself;
#   Serial: the Kokkos of Debian experimental's Trilinos, with Kokkos Kernels, under a prefix of its
#           own since both packages own the same paths.
# It is made with debootstrap and entered with bubblewrap. Their libraries need a newer C library than
# that of a stable Debian, so they cannot be used outside it.
# Part of environment.sh.

root=$cache/debian-sid
root_stamps=$root/var/lib/kokkosxent
root_checkout=/KokkosXent # one path for every checkout, so that all share the compiler cache
kokkos_serial_prefix=/opt/kokkos-serial

root_packages=(
  g++ cmake ninja-build ccache git
  libkokkos-dev libblas-dev liblapack-dev
  libgtest-dev libbenchmark-dev nlohmann-json3-dev
  python3-matplotlib
)
trilinos_packages=(trilinos-dev libtrilinos-kokkos-dev libtrilinos-kokkos-kernels-dev)
experimental=(-o APT::Default-Release=experimental) # sid where experimental has none

prepare_debian_root() {
  require_debian
  mkdir -p "$cache/log" "$cache/ccache"
  install_root_tools
  choose_isolation
  lock_root --shared
  if ! root_step_done complete; then
    lock_root --exclusive
    make_root
    lock_root --shared
  fi
  say "using the Debian sid root $root: $(root_versions)"
}

# An interrupted run goes on where it was.
make_root() {
  [[ -d $root ]] || bootstrap_root
  root_step apt configure_apt
  root_step packages install_root_packages
  root_step kokkos-openmp complete_kokkos_openmp
  root_step kokkos-serial unpack_kokkos_serial
  root_step complete true
}

# root_step NAME COMMAND: done once, and again after this file has changed.
root_step() {
  if root_step_done "$1"; then return; fi
  "$2"
  mkdir -p "$root_stamps"
  sha256sum tools/debian_root.sh >"$root_stamps/$1.partial"
  mv "$root_stamps/$1.partial" "$root_stamps/$1"
}

root_step_done() {
  sha256sum --check --status "$root_stamps/$1" 2>/dev/null
}

require_debian() {
  local name=this
  if ! is_debian; then
    name=$(sed -n 's/^PRETTY_NAME="\?\([^"]*\)"\?$/\1/p' /etc/os-release 2>/dev/null || uname)
    fail "there is no Kokkos to use, and $name is neither Debian nor Ubuntu;" "$(spack_advice)"
  fi
  is_root || fail "there is no Kokkos to use, and only root can make a Debian root that has one;" \
    "run $program as root, or $(spack_advice)"
}

install_root_tools() {
  local missing=()
  command -v debootstrap >/dev/null || missing+=(debootstrap)
  command -v bwrap >/dev/null || missing+=(bubblewrap)
  [[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]] || missing+=(debian-archive-keyring)
  ((${#missing[@]} == 0)) || host_install "${missing[@]}"
}

# Set-up holds the root alone, builds share it; the lock ends with this process.
lock_root() {
  [[ -n ${root_lock:-} ]] || exec {root_lock}>"$cache/lock"
  flock --nonblock "$1" "$root_lock" && return
  say "waiting for another run that uses $cache"
  flock "$1" "$root_lock"
}

# The root gets its name when it is complete. debootstrap mounts /proc in it; a mount namespace of its
# own takes that mount away however it ends.
bootstrap_root() {
  say "making a Debian sid root in $root"
  local partial=$root.partial
  rm -rf --one-file-system "$partial"
  (($(df --output=avail --block-size=1M "$cache" | tail -n 1) > 3000)) ||
    fail "less than 3 GB of disk is free for $cache"
  logged "$cache/log/bootstrap.log" \
    unshare --mount debootstrap --variant=minbase sid "$partial" ||
    fail "debootstrap could not make a Debian sid root" "is there a network?"
  mv "$partial" "$root"
}

configure_apt() {
  local sources=$root/etc/apt/sources.list
  sed 's/ sid / experimental /' "$sources" >"$sources.d/experimental.list"
  cat >"$root/etc/dpkg/dpkg.cfg.d/kokkosxent" <<'END'
force-unsafe-io
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/man/*
END
  cat >"$root/etc/apt/apt.conf.d/kokkosxent" <<'END'
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Retries "3";
END
}

install_root_packages() {
  local log=$cache/log/packages.log
  update_package_lists
  repair_root_packages &>"$cache/log/repair.log" || true
  say "installing in it: ${root_packages[*]}"
  logged "$log" in_online_root apt-get install --yes "${root_packages[@]}" ||
    fail "the packages could not be installed in $root" \
      "is there a network? After removing that folder the next run starts anew."
  in_online_root apt-get clean
}

# Completes what an interrupted installation left half done.
repair_root_packages() {
  in_online_root dpkg --configure -a || true
  in_online_root apt-get install --yes --fix-broken
}

# Once a run. An archive whose index is past its date is used all the same, but only then.
update_package_lists() {
  [[ -z ${package_lists_read:-} ]] || return 0
  package_lists_read=yes
  local log=$cache/log/update.log
  say "reading Debian's package lists"
  in_online_root apt-get update &>"$log" && return
  if grep -q 'Release file .* is expired' "$log"; then
    say "the archive's index has expired: its Valid-Until date is not checked"
    echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/kokkosxent-valid-until"
  fi
  logged "$log" in_online_root apt-get update ||
    fail "apt-get could not read Debian's package lists" "is there a network?"
}

# libkokkos-dev's CMake files name static libraries that it lacks, of parts that are header-only.
complete_kokkos_openmp() {
  local targets library
  targets=$(find "$root/usr/lib" -name 'KokkosTargets*.cmake')
  # shellcheck disable=SC2086 # one word for each file
  grep -ho 'libkokkos[a-z]*\.a' $targets | sort -u | while read -r library; do
    library=$(dirname "$(find "$root/usr/lib" -name libkokkoscore.so)")/$library
    [[ -e $library ]] || printf '!<arch>\n' >"$library"
  done
}

unpack_kokkos_serial() {
  update_package_lists
  say "unpacking in it, under $kokkos_serial_prefix: ${trilinos_packages[*]}"
  local log=$cache/log/kokkos-serial.log downloads=/var/cache/kokkosxent package
  rm -rf "$root$kokkos_serial_prefix" "$root$downloads"
  mkdir -p "$root$downloads"
  # shellcheck disable=SC2046 # one word for each package
  logged "$log" in_online_root env --chdir="$downloads" \
    apt-get "${experimental[@]}" download "${trilinos_packages[@]}" $(trilinos_libraries) ||
    fail "the Trilinos packages could not be downloaded" "is there a network?"
  for package in "$root$downloads"/*.deb; do
    logged "$log" in_online_root dpkg -x "${package#"$root"}" "$kokkos_serial_prefix"
  done
  dirname "$(in_online_root find "$kokkos_serial_prefix" -name libkokkoscore.so)" \
    >"$root/etc/ld.so.conf.d/kokkos-serial.conf"
  logged "$log" in_online_root ldconfig
  rm -rf "${root:?}$downloads"
}

# The libraries' package names hold their version.
trilinos_libraries() {
  in_online_root apt-cache "${experimental[@]}" depends "${trilinos_packages[@]}" |
    sed -n 's/^ *Depends: \(libtrilinos-.*\)/\1/p' | sort -u
}

root_versions() {
  local versions
  versions=$(find "$root/usr/lib" "$root$kokkos_serial_prefix" -name KokkosConfigVersion.cmake \
    -exec sed -n 's/^set(PACKAGE_VERSION "\?\([0-9.]*\)"\?)/\1/p' {} + | paste -sd' ')
  echo "GCC $(in_debian_root g++ -dumpfullversion), Kokkos ${versions/ / (OpenMP) and } (Serial)"
}

# What is allowed here: inside some containers /proc cannot be mounted anew, or the loopback interface
# of a new network namespace not be set up.
choose_isolation() {
  isolation=(--unshare-pid --proc /proc)
  try_isolation 2>/dev/null || isolation=(--bind /proc /proc)
  try_isolation 2>/dev/null || fail "bubblewrap cannot make namespaces here: $(try_isolation 2>&1)" \
    "in a container that takes the right to mount (docker run --privileged);" "or $(spack_advice)"
  offline=(--unshare-net)
  try_isolation "${offline[@]}" 2>/dev/null || offline=()
}

try_isolation() {
  bwrap --ro-bind / / --dev /dev "${isolation[@]}" "$@" true
}

# Builds and tests have no network.
in_debian_root() {
  enter_root "${offline[@]}" --bind "$checkout" "$root_checkout" --chdir "$root_checkout" \
    --bind "$cache/ccache" /var/cache/ccache "$@"
}

in_online_root() {
  enter_root --ro-bind-try "$(realpath /etc/resolv.conf)" /etc/resolv.conf \
    env DEBIAN_FRONTEND=noninteractive "$@"
}

# enter_root BWRAP_OPTION... COMMAND...: the environment is a fixed one but for what is named here.
enter_root() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TERM="${TERM:-dumb}" \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    CMAKE_GENERATOR=Ninja CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_DIR=/var/cache/ccache \
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0="$root_checkout" \
    bwrap --die-with-parent --bind "$root" / --dev /dev --ro-bind /sys /sys "${isolation[@]}" "$@"
}

# discard_outdated_build FOLDER: a newer package's headers can be older than what was compiled with
# the package before it, so CMake's file times do not tell.
discard_outdated_build() {
  local packages=$1/packages.sha256
  sha256sum --check --status "$packages" 2>/dev/null && return
  rm -rf "$1"
  mkdir -p "$1"
  sha256sum "$root/var/lib/dpkg/status" >"$packages"
}
