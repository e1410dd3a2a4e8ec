# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The Spack recipe and CMakeLists.txt say the same. Needs no Spack.

usage: test_recipe.py <source folder of KokkosXent>
"""

import ast
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(sys.argv[1])
REPOSITORY = SOURCE / "spack" / "spack_repo" / "kokkosxent"


class Recipe:
    """What a package.py declares, read without running it."""

    def __init__(self, text):
        tree = ast.parse(text)
        self.class_names = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        self.calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]

    def arguments(self, function):
        """The string arguments of each call of function(...) or self.function(...)."""
        return [
            [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
            for call in self.calls
            if getattr(call.func, "id", getattr(call.func, "attr", None)) == function
        ]

    def first_arguments(self, function):
        return [arguments[0] for arguments in self.arguments(function)]

    def cmake_options(self):
        return self.first_arguments("define") + self.first_arguments("define_from_variant")


class Project:
    """What CMakeLists.txt declares."""

    def __init__(self, text):
        self.options = set(re.findall(r"^option\(\s*(\w+)", text, re.MULTILINE))
        self.version = re.search(r"project\([^)]*\bVERSION\s+([\d.]+)", text)[1]
        self.cmake_version = re.search(r"cmake_minimum_required\(VERSION\s+([\d.]+)", text)[1]
        self.kokkos_range = re.search(r"KOKKOS_VERSIONS\s+([\d.]+)\.\.\.<(\d+)\)", text).groups()


def unknown_options(recipe, project):
    return sorted(set(recipe.cmake_options()) - project.options)


class RecipeTest(unittest.TestCase):
    def setUp(self):
        self.folder = REPOSITORY / "packages" / "kokkos_xent"
        self.text = (self.folder / "package.py").read_text(encoding="utf-8")
        self.recipe = Recipe(self.text)
        self.project = Project((SOURCE / "CMakeLists.txt").read_text(encoding="utf-8"))

    def dependency(self, name):
        found = [spec for spec in self.recipe.first_arguments("depends_on")
                 if re.match(rf"{name}\b", spec)]
        self.assertEqual(len(found), 1, name)
        return found[0]

    def test_every_cmake_option_exists(self):
        self.assertEqual(len(self.recipe.cmake_options()), 3)
        self.assertEqual(unknown_options(self.recipe, self.project), [])

    def test_a_misspelt_cmake_option_is_found(self):
        recipe = Recipe(self.text.replace("KokkosXent_ENABLE_PERF", "KokkosXent_ENABLE_PREF"))
        self.assertEqual(unknown_options(recipe, self.project), ["KokkosXent_ENABLE_PREF"])

    def test_every_variant_sets_its_option(self):
        pairs = dict(reversed(call) for call in self.recipe.arguments("define_from_variant"))
        self.assertEqual(
            pairs,
            {name: f"KokkosXent_ENABLE_{name.upper()}" for name in ("tests", "perf", "examples")},
        )
        self.assertEqual(sorted(pairs), sorted(self.recipe.first_arguments("variant")))

    def test_the_project_version_is_known(self):
        self.assertIn(self.project.version, self.recipe.first_arguments("version"))

    def test_the_newest_version_is_the_project_version(self):
        numbers = [version for version in self.recipe.first_arguments("version")
                   if version[0].isdigit()]
        newest = max(numbers, key=lambda version: [int(part) for part in version.split(".")])
        self.assertEqual(newest, self.project.version)

    def test_kokkos_and_cmake_versions_agree(self):
        oldest, excluded_major = self.project.kokkos_range
        self.assertEqual(self.dependency("kokkos"), f"kokkos@{oldest}:{int(excluded_major) - 1}")
        self.assertEqual(self.dependency("cmake"), f"cmake@{self.project.cmake_version}:")

    def test_names_follow_the_layout_of_a_package_repository(self):
        words = self.folder.name.split("_")
        self.assertEqual(self.recipe.class_names, ["".join(map(str.capitalize, words))])
        configuration = (REPOSITORY / "repo.yaml").read_text(encoding="utf-8")
        namespace = re.search(r"namespace:\s*(\w+)", configuration)[1]
        self.assertEqual(namespace, REPOSITORY.name)
        self.assertRegex(configuration, r"api:\s*v2\.\d+")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
