// SPDX-License-Identifier: Apache-2.0
/* What `cloche doctor` says of a host's settings, on directories that are laid out as /proc/sys of
 * each distribution. What it finds by trying is shown on real hosts (tests/rig). */
#include "test.h"

#include "base/fd.h"
#include "daemon/probe/probe.h"
#include "engine/linux/dir_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char top[64];

static void set(const char *name, const char *value)
{
	char path[160];
	auto_fd int fd = -1;

	(void)snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	CHECK(fd >= 0);
	CHECK_INT(fd_write_all(fd, value, strlen(value)), 0);
}

static const char *explain(int errnum)
{
	static char detail[PROBE_DETAIL_SIZE];

	probe_explain_userns(top, errnum, detail);
	return detail;
}

static void begin(void)
{
	char path[160];

	(void)snprintf(top, sizeof(top), "/tmp/test-probe.XXXXXX");
	CHECK(mkdtemp(top) != NULL);
	(void)snprintf(path, sizeof(path), "%s/user", top);
	CHECK_INT(mkdir(path, 0755), 0);
	(void)snprintf(path, sizeof(path), "%s/kernel", top);
	CHECK_INT(mkdir(path, 0755), 0);
}

TEST(a_host_that_restricts_nothing_has_user_namespaces)
{
	begin();
	CHECK_STR(explain(0), "yes");
	CHECK_STR(explain(ENOSYS), "Function not implemented");
	set("user/max_user_namespaces", "61000\n"); /* as Debian has them */
	set("kernel/unprivileged_userns_clone", "1\n");
	set("kernel/apparmor_restrict_unprivileged_userns", "0\n");
	CHECK_STR(explain(0), "yes");
	CHECK_INT(dir_tree_remove(AT_FDCWD, top), 0);
}

TEST(a_restriction_of_ubuntus_is_named_whether_it_hinders_or_not)
{
	begin();
	set("kernel/apparmor_restrict_unprivileged_userns", "1\n");
	CHECK_STR(explain(0),
	          "yes; kernel.apparmor_restrict_unprivileged_userns=1 forbids it to others "
	          "than root, which is no hindrance");
	CHECK_STR(explain(EACCES),
	          "Permission denied; kernel.apparmor_restrict_unprivileged_userns=1 forbids it");
	CHECK_INT(dir_tree_remove(AT_FDCWD, top), 0);
}

TEST(a_host_without_room_for_user_namespaces_names_the_setting)
{
	begin();
	set("user/max_user_namespaces", "0\n");
	CHECK_STR(explain(ENOSPC),
	          "No space left on device; user.max_user_namespaces=0 forbids it");
	set("user/max_user_namespaces", "07\n"); /* no such number is what was meant */
	CHECK_STR(explain(ENOSPC), "No space left on device");
	CHECK_INT(dir_tree_remove(AT_FDCWD, top), 0);
}
