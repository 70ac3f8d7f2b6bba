// SPDX-License-Identifier: Apache-2.0
#include "engine/linux/kernel_share.h"

#include "test.h"

TEST(a_share_is_what_the_host_has_divided_by_the_sandboxes)
{
	CHECK_INT(kernel_share_of(64000, 1000, 16, 128), 64);
}

TEST(a_share_has_a_least_and_a_most)
{
	CHECK_INT(kernel_share_of(128, 1000, 16, 128), 16);
	CHECK_INT(kernel_share_of(1000000, 1000, 16, 128), 128);
	CHECK_INT(kernel_share_of(UINT64_MAX, 1000, 16, 128), 128);
}

TEST(no_share_is_more_than_half_or_nothing)
{
	CHECK_INT(kernel_share_of(20, 1, 16, 128), 10);
	CHECK_INT(kernel_share_of(1, 1000, 16, 128), 1);
}

TEST(files_of_all_processes_stay_within_the_share)
{
	const uint64_t shares[SHARE_COUNT] = {[SHARE_OPEN_FILES] = 1 << 20};

	CHECK_INT(kernel_share_open_files(shares, 4096, 256), 4096);
	CHECK_INT(kernel_share_open_files(shares, 4096, 1024), 1024);
	CHECK_INT(kernel_share_open_files(shares, 4096, 1 << 20), 256);
	CHECK_INT(kernel_share_open_files(shares, 16, 1 << 20), 16);
}

TEST(a_sysctl_that_is_not_there_bounds_nothing)
{
	CHECK_INT(kernel_sysctl("fs.no_such_thing") == UINT64_MAX, 1);
	CHECK_INT(kernel_sysctl("kernel.pid_max") > 300, 1);
}
