// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"
#include "test.h"

#include <string.h>

TEST(a_volume_lies_below_the_root_and_in_no_place_of_the_systems)
{
	static const char *const good[] = {"/data", "/mnt/a", "/home/user/x", "/etcetera",
	                                   "/a..b/.c"};
	static const char *const bad[] = {"",     "/",       "data",    "/etc",   "/etc/x",  "/usr",
	                                  "/opt", "/proc/1", "/a/../b", "/a/./b", "/a//b",   "/a/",
	                                  "//a",  "/..",     "/run/x",  "/a\nb",  "/dev/shm"};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK(volume_check_path(good[i]) == NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(volume_check_path(bad[i]) != NULL);
}

TEST(a_path_of_a_volume_has_a_most)
{
	char path[VOLUME_PATH_SIZE + 1];

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[VOLUME_PATH_SIZE] = '\0';
	CHECK(volume_check_path(path) != NULL);
	path[VOLUME_PATH_SIZE - 1] = '\0';
	CHECK(volume_check_path(path) == NULL);
}

TEST(paths_overlap_where_one_lies_in_the_other)
{
	CHECK(volume_paths_overlap("/a", "/a"));
	CHECK(volume_paths_overlap("/a", "/a/b"));
	CHECK(volume_paths_overlap("/a/b", "/a"));
	CHECK(!volume_paths_overlap("/a", "/ab"));
	CHECK(!volume_paths_overlap("/a/b", "/a/c"));
}
