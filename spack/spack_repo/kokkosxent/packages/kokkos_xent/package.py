# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class KokkosXent(CMakePackage):
    """Softmax cross-entropy loss and its gradient over rows of logits, header-only, on every
    Kokkos execution space. The back ends are those of the Kokkos it is built with, for example
    kokkos-xent ^kokkos+openmp, or kokkos-xent ^kokkos+cuda cuda_arch=90."""

    # This recipe installs the checkout that it is a part of.
    checkout = pathlib.Path(__file__).resolve().parents[5]
    homepage = checkout.as_uri()
    git = checkout.as_uri()

    license("Apache-2.0 WITH LLVM-exception")

    version("main", branch="main", preferred=True)
    version("0.1.0", tag="v0.1.0")

    variant("tests", default=False, description="Build the tests")
    variant("perf", default=False, description="Build the performance sweep")
    variant("examples", default=False, description="Build the examples")

    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("kokkos@4.6:5")
    # Tests and perf have device lambdas, which Kokkos 4 must be asked for.
    requires("^kokkos+cuda_lambda", when="+tests ^kokkos@:4+cuda")
    requires("^kokkos+cuda_lambda", when="+perf ^kokkos@:4+cuda")

    depends_on("googletest@1.12:", when="+tests")
    depends_on("python@3.9:", type="build", when="+tests")
    depends_on("benchmark@1.7:", when="+perf")
    depends_on("nlohmann-json@3.10:", when="+tests")
    depends_on("nlohmann-json@3.10:", when="+perf")

    # The compiler is left to Kokkos, whose CMake package sends device code to nvcc by itself.
    def cmake_args(self):
        return [
            self.define_from_variant("KokkosXent_ENABLE_TESTS", "tests"),
            self.define_from_variant("KokkosXent_ENABLE_PERF", "perf"),
            self.define_from_variant("KokkosXent_ENABLE_EXAMPLES", "examples"),
        ]
