// SPDX-License-Identifier: Apache-2.0
/*
 * The jail engine on this host, as root, with a payload in the agent's place. A test starts guests
 * through jail_engine in a data and run directory of its own, and asks them by shell commands.
 */
#include "test.h"

#include "base/fd.h"
#include "engine/engine.h"
#include "engine/jail/tree.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static struct {
	struct loop *loop;
	char top[64], data[80], run[80];
	int agent_fd;
	bool is_plain;
	struct err err;
	bool is_failed, is_gone, is_ended;
	int wait_status;
} t;

static int load_payload(void)
{
	char path[PATH_MAX], *slash, chunk[65536];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 20);
	auto_fd int from = -1;
	int fd = memfd_create("agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(n > 0);
	path[n] = '\0';
	slash = strrchr(path, '/');
	(void)snprintf(slash, sizeof(path) - (size_t)(slash - path), "/jail-payload");
	from = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(from >= 0);
	while ((n = read(from, chunk, sizeof(chunk))) > 0)
		CHECK_INT(fd_write_all(fd, chunk, (size_t)n), 0);
	CHECK_INT(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL),
	          0);
	return fd;
}

static void probe(void)
{
	struct engine_host host = {.loop = t.loop,
	                           .data_dir = t.data,
	                           .run_dir = t.run,
	                           .agent_fd = t.agent_fd,
	                           .is_plain_storage = t.is_plain};

	if (jail_engine.probe(&host, &t.err) < 0) {
		print_message("%s\n", t.err.message);
		CHECK(false);
	}
}

static void set_up(bool is_plain)
{
	if (geteuid() != 0)
		SKIP("the jail needs root");
	(void)snprintf(t.top, sizeof(t.top), "/tmp/test-jail.XXXXXX");
	CHECK(mkdtemp(t.top) != NULL);
	(void)snprintf(t.data, sizeof(t.data), "%s/data", t.top);
	(void)snprintf(t.run, sizeof(t.run), "%s/run", t.top);
	CHECK_INT(mkdir(t.data, 0755), 0);
	CHECK_INT(mkdir(t.run, 0755), 0);
	CHECK_INT(loop_new(&t.loop, &t.err), 0);
	t.agent_fd = load_payload();
	t.is_plain = is_plain;
	probe();
}

static void tear_down(void)
{
	jail_engine.leave();
	loop_free(t.loop);
	CHECK_INT(tree_remove(AT_FDCWD, t.top), 0);
}

static void on_started(struct guest *g, const struct err *err, void *arg)
{
	(void)g;
	(void)arg;
	t.is_failed = err != NULL;
	if (err)
		t.err = *err;
	loop_stop(t.loop);
}

static void on_ended(struct guest *g, int wait_status, void *arg)
{
	(void)g;
	(void)arg;
	t.is_ended = true;
	t.wait_status = wait_status;
	loop_stop(t.loop);
}

static void on_gone(void *arg)
{
	(void)arg;
	t.is_gone = true;
	loop_stop(t.loop);
}

static struct guest_spec make_spec(uint32_t slot)
{
	struct guest_spec spec = {.hostname = "bell",
	                          .slot = slot,
	                          .limits = {.memory_bytes = 128 * MIB,
	                                     .disk_bytes = 64 * MIB,
	                                     .inodes = 10000,
	                                     .cpu_milli = 1000,
	                                     .pids = 32,
	                                     .nofile = 256}};

	id_make(spec.id, "sb");
	return spec;
}

static struct guest *start(const struct guest_spec *spec)
{
	struct guest *g = NULL;

	if (jail_engine.start(spec, on_started, on_ended, NULL, &g, &t.err) < 0)
		t.is_failed = true;
	else
		CHECK_INT(loop_run(t.loop), 0);
	if (t.is_failed)
		print_error("start failed: %s\n", t.err.message);
	CHECK(!t.is_failed);
	return g;
}

static void end(struct guest *g)
{
	t.is_gone = false;
	jail_engine.kill(g, on_gone, NULL);
	CHECK_INT(loop_run(t.loop), 0);
	CHECK(t.is_gone);
}

/* Runs a command inside; what it says, without its last newline. Good until the next call. */
static const char *say(struct guest *g, const char *command)
{
	static char text[65536];
	auto_fd int fd = -1;
	size_t len = 0;
	ssize_t n;

	CHECK_INT(jail_engine.connect(g, &fd, &t.err), 0);
	CHECK_INT(fd_set_nonblock(fd, false), 0);
	CHECK_INT(fd_write_all(fd, command, strlen(command)), 0);
	CHECK_INT(shutdown(fd, SHUT_WR), 0);
	while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	while (len > 0 && text[len - 1] == '\n')
		len--;
	text[len] = '\0';
	return text;
}

static bool contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		return false;
	print_error("has '%s':\n%s\n", part, text);
	return true;
}

/* What of this test's sandboxes is left on the host: mounts, loop devices, cgroups. */
static const char *leftovers(void)
{
	static char text[8192];
	auto_free char *command = NULL;
	uint32_t hash = 2166136261U; /* names the parent group, as the engine does */
	int pipe_fds[2];
	size_t len = 0;
	ssize_t n;

	for (const char *p = t.run; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619U;
	command = xasprintf("grep %s /proc/self/mountinfo; "
	                    "grep %s /sys/block/loop*/loop/backing_file 2>/dev/null; "
	                    "find /sys/fs/cgroup -name cloche-%08x 2>/dev/null",
	                    t.top, t.top, hash);
	CHECK_INT(pipe2(pipe_fds, O_CLOEXEC), 0);
	if (fork() == 0) {
		(void)dup2(pipe_fds[1], STDOUT_FILENO);
		(void)execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(1);
	}
	(void)close(pipe_fds[1]);
	while ((n = read(pipe_fds[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	(void)close(pipe_fds[0]);
	return text;
}

TEST_FORKED(a_guest_sees_its_own_names_users_and_processes, 60)
{
	struct guest_spec spec;
	struct guest *g;

	set_up(false);
	spec = make_spec(1);
	g = start(&spec);
	CHECK_STR(say(g, "user hostname; cat /etc/hostname; id -u; id -un; pwd"),
	          "bell\nbell\n1000\nuser\n/");
	CHECK_STR(say(g, "root id -u; cat /proc/self/uid_map | tr -s ' '"),
	          "0\n 0 805371904 65536");
	CHECK_STR(say(g, "user [ $(ls -d /proc/[0-9]* | wc -l) -lt 9 ] && echo few"), "few");
	CHECK_STR(say(g, "user nproc; grep -c ^processor /proc/cpuinfo; cat "
	                 "/sys/devices/system/cpu/online"),
	          "1\n1\n0");
	CHECK_STR(say(g, "user grep MemTotal /proc/meminfo | tr -s ' '"), "MemTotal: 131072 kB");
	end(g);
	tear_down();
}

TEST_FORKED(no_path_of_the_host_shows_inside, 60)
{
	struct guest_spec spec;
	struct guest *g;
	const char *text;

	set_up(false);
	spec = make_spec(2);
	g = start(&spec);
	text = say(g, "user cat /proc/self/mountinfo /proc/mounts /proc/self/cgroup");
	CHECK(!contains(text, t.top));
	CHECK(!contains(text, spec.id));
	CHECK(!contains(text, "/tmp/"));
	CHECK(strstr(text, " / / ") != NULL);
	CHECK_STR(say(g, "root ls -A /home /root /opt /srv /mnt"),
	          "/home:\nuser\n\n/mnt:\n\n/opt:\ncloche\n\n/root:\n.bashrc\n.profile\n\n/srv:");
	CHECK_STR(say(g, "user ls -m /dev"),
	          "fd, full, null, ptmx, pts, random, shm, stderr, stdin, stdout, tty, urandom,\n"
	          "zero");
	end(g);
	tear_down();
}

/* The shell could not open the file for writing: EROFS, EACCES, or a kernel that has none. */
static bool is_refused(const char *text)
{
	return strstr(text, "cannot create") != NULL;
}

TEST_FORKED(what_tells_of_the_host_is_covered, 60)
{
	struct guest_spec spec;
	struct guest *g;

	set_up(false);
	spec = make_spec(3);
	g = start(&spec);
	CHECK_STR(say(g, "root cat /proc/kcore /proc/keys /proc/timer_list /proc/kallsyms "
	                 "/proc/cmdline /proc/modules /proc/interrupts 2>/dev/null | wc -c; "
	                 "ls /proc/bus /proc/fs /proc/irq /proc/pressure | grep -v :; true"),
	          "0");
	CHECK(is_refused(say(g, "root echo x > /proc/sys/kernel/core_pattern")));
	CHECK(is_refused(say(g, "root echo x > /proc/sys/kernel/shmmax")));
	CHECK(is_refused(say(g, "root echo h > /proc/sysrq-trigger")));
	CHECK(is_refused(say(g, "root echo 1 > /proc/meminfo")));
	CHECK_STR(say(g, "root ls /sys /sys/fs"), "/sys:\ndevices\nfs\nkernel\n\n/sys/fs:");
	end(g);
	tear_down();
}

TEST_FORKED(the_agent_cannot_be_looked_into_from_inside, 60)
{
	struct guest_spec spec;
	struct guest *g;

	set_up(false);
	spec = make_spec(4);
	g = start(&spec);
	CHECK(strstr(say(g, "root cat /proc/1/environ"), "denied") != NULL);
	CHECK(strstr(say(g, "root head -c1 /proc/1/mem"), "denied") != NULL);
	CHECK(strstr(say(g, "root ls -l /proc/1/fd"), "denied") != NULL);
	CHECK(strstr(say(g, "root ls /proc/1/root/"), "denied") != NULL);
	end(g);
	tear_down();
}

TEST_FORKED(rights_are_cut_to_what_was_promised, 60)
{
	struct guest_spec spec;
	struct guest *g;

	set_up(false);
	spec = make_spec(5);
	g = start(&spec);
	CHECK_STR(say(g, "user grep -E '^(CapEff|CapPrm|CapAmb|NoNewPrivs|Seccomp):' "
	                 "/proc/self/status"),
	          "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
	          "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2");
	/* CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID NET_BIND_SERVICE SETFCAP */
	CHECK_STR(say(g, "root grep -E '^(CapEff|CapBnd):' /proc/self/status"),
	          "CapEff:\t00000000800004fb\nCapBnd:\t00000000800805fb");
	CHECK(strstr(say(g, "root mount -t tmpfs none /mnt"), "permission denied") != NULL);
	CHECK(strstr(say(g, "root unshare -U true"), "not permitted") != NULL);
	CHECK(strstr(say(g, "root chroot / true"), "not permitted") != NULL);
	CHECK(strstr(say(g, "root mknod /tmp/x c 1 3"), "not permitted") != NULL);
	CHECK_STR(say(g, "user ulimit -c; ulimit -r"), "0\n0");
	end(g);
	tear_down();
}

TEST_FORKED(root_inside_changes_its_own_layer_only, 60)
{
	struct guest_spec spec;
	struct guest *a, *b;

	set_up(false);
	spec = make_spec(6);
	a = start(&spec);
	spec = make_spec(7);
	b = start(&spec);
	CHECK_STR(say(a, "root echo hello > /usr/hello && rm /usr/bin/true && touch /etc/x && "
	                 "chown 1000 /etc/x && stat -c %u /etc/x && useradd -m bob && id -u bob"),
	          "1000\n1001");
	CHECK_STR(say(b, "root ls /usr/hello /usr/bin/true /etc/x 2>/dev/null; id bob 2>&1"),
	          "/usr/bin/true\nid: 'bob': no such user");
	CHECK_INT(access("/usr/bin/true", X_OK), 0);
	CHECK_INT(access("/usr/hello", F_OK), -1);
	end(a);
	end(b);
	tear_down();
}

TEST_FORKED(the_disk_limit_ends_data_and_inodes_alike, 120)
{
	struct guest_spec spec;
	struct guest_usage usage;
	struct guest *g;

	set_up(false);
	spec = make_spec(8);
	spec.limits.disk_bytes = 8 * MIB;
	g = start(&spec);
	CHECK(strstr(say(g, "user dd if=/dev/urandom of=/tmp/big bs=1M count=20 2>&1; sync"),
	             "quota exceeded") != NULL);
	CHECK_INT(jail_engine.usage(g, &usage, &t.err), 0);
	CHECK(usage.disk_bytes > 4 * MIB && usage.disk_bytes <= 8 * MIB);
	CHECK_STR(say(g, "user rm /tmp/big; sync; echo ok"), "ok");
	/* The first refusal ends the shell: each one costs btrfs a flush. */
	CHECK(strstr(say(g, "user cd /tmp; n=$(printf %0200d 0); i=0; while : > $n-$i; do "
	                    "i=$((i+1)); done"),
	             "quota exceeded") != NULL);
	end(g);
	tear_down();
}

TEST_FORKED(memory_pids_and_files_end_at_their_limits_and_the_guest_lives, 60)
{
	struct guest_spec spec;
	struct guest_usage usage;
	struct guest *g;

	set_up(false);
	spec = make_spec(9);
	g = start(&spec);
	if (!(jail_engine.isolation().walls & BIT(WALL_MEMORY_LIMIT)))
		SKIP("no memory cgroup on this host");
	CHECK_STR(say(g, "user (head -c 300m /dev/zero | tail | wc -c) 2>/dev/null; echo alive"),
	          "0\nalive");
	CHECK_INT(jail_engine.usage(g, &usage, &t.err), 0);
	CHECK(usage.oom_kills >= 1);
	CHECK(usage.memory_peak_bytes > 100 * MIB && usage.memory_peak_bytes <= 128 * MIB);
	CHECK(usage.cpu_ns > 0);
	(void)say(g, "user i=0; while [ $i -lt 40 ]; do sleep 9 >/dev/null 2>&1 & i=$((i+1)); "
	             "done");
	CHECK_INT(jail_engine.usage(g, &usage, &t.err), 0);
	CHECK(usage.pids > 0 && usage.pids <= 32);
	end(g);
	tear_down();
}

TEST_FORKED(limits_change_while_it_runs, 60)
{
	struct guest_spec spec;
	struct guest *g;

	set_up(false);
	spec = make_spec(10);
	g = start(&spec);
	spec.limits.memory_bytes = 256 * MIB;
	spec.limits.disk_bytes = 128 * MIB;
	CHECK_INT(jail_engine.set_limits(g, &spec.limits, &t.err), 0);
	CHECK_STR(say(g, "user grep MemTotal /proc/meminfo | tr -s ' '"), "MemTotal: 262144 kB");
	CHECK_STR(say(g, "user dd if=/dev/zero of=/tmp/big bs=1M count=80 2>/dev/null; stat -c %s "
	                 "/tmp/big"),
	          "83886080");
	end(g);
	tear_down();
}

TEST_FORKED(its_network_is_a_loopback_of_its_own, 60)
{
	struct guest_spec spec;
	struct guest *g;

	set_up(false);
	spec = make_spec(11);
	g = start(&spec);
	CHECK_STR(say(g, "user grep -c : /proc/net/dev; grep -o ' *lo:' /proc/net/dev | tr -d ' '"),
	          "1\nlo:");
	CHECK_STR(say(g, "user cat /proc/net/route | wc -l | tr -d ' '"), "1");
	end(g);
	tear_down();
}

TEST_FORKED(a_frozen_guest_stands_still_and_can_be_killed, 60)
{
	struct guest_spec spec;
	struct guest *g;

	set_up(false);
	spec = make_spec(12);
	g = start(&spec);
	(void)say(g, "user sleep 100 >/dev/null 2>&1 &");
	CHECK_INT(jail_engine.freeze(g, true, &t.err), 0);
	CHECK_INT(jail_engine.freeze(g, false, &t.err), 0);
	CHECK_STR(say(g, "user echo awake"), "awake");
	(void)say(g, "user sleep 100 >/dev/null 2>&1 &");
	CHECK_INT(jail_engine.freeze(g, true, &t.err), 0);
	end(g);
	tear_down();
}

TEST_FORKED(an_end_of_the_first_process_is_told, 60)
{
	struct guest_spec spec;
	struct guest *g;
	auto_fd int fd = -1;

	set_up(false);
	spec = make_spec(13);
	g = start(&spec);
	CHECK_INT(jail_engine.connect(g, &fd, &t.err), 0);
	CHECK_INT(fd_write_all(fd, "exit 7", 6), 0);
	CHECK_INT(shutdown(fd, SHUT_WR), 0);
	CHECK_INT(loop_run(t.loop), 0);
	CHECK(t.is_ended);
	CHECK_INT(WEXITSTATUS(t.wait_status), 7);
	end(g);
	tear_down();
}

static void on_tick(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

/* Lets the loop turn until the sandbox's run directory, the last thing to go, is gone. */
static void wait_until_absent(const char *id)
{
	struct loop_timer *timer = loop_timer_new(t.loop, on_tick, NULL);
	char path[200];

	(void)snprintf(path, sizeof(path), "%s/sandboxes/%s", t.run, id);
	while (access(path, F_OK) == 0) {
		loop_timer_set_in(timer, 1000);
		CHECK_INT(loop_run(t.loop), 0);
	}
	loop_timer_free(timer);
}

TEST_FORKED(a_failed_step_is_named_and_undone, 60)
{
	struct guest_spec spec;
	struct guest *g;

	set_up(false);
	jail_engine.leave();
	(void)close(t.agent_fd);
	t.agent_fd = memfd_create("agent", MFD_CLOEXEC);
	CHECK_INT(fd_write_all(t.agent_fd, "no program", 10), 0);
	probe();
	spec = make_spec(16);
	CHECK_INT(jail_engine.start(&spec, on_started, on_ended, NULL, &g, &t.err), 0);
	CHECK_INT(loop_run(t.loop), 0);
	CHECK(t.is_failed);
	CHECK_STR(t.err.message, "jail step 'exec': execveat: Exec format error");
	tear_down();
	CHECK_STR(leftovers(), "");
}

static bool knows_nothing(const char *id, void *arg)
{
	(void)id;
	(void)arg;
	return false;
}

TEST_FORKED(the_next_broker_adopts_what_lives_and_sweeps_the_rest, 60)
{
	struct guest_spec kept, dead, seen;
	struct guest *g, *other;

	set_up(false);
	kept = make_spec(14);
	dead = make_spec(15);
	g = start(&kept);
	other = start(&dead);
	(void)say(other, "user sleep 100 >/dev/null 2>&1 &");
	(void)say(g, "user echo here > /tmp/mark");
	jail_engine.leave();

	/* As a broker of its own would, though these are still our children. */
	probe();
	CHECK_INT(jail_engine.adopt(kept.id, on_ended, NULL, &g, &seen, &t.err), 0);
	CHECK_INT(seen.slot, 14);
	CHECK_STR(say(g, "user cat /tmp/mark"), "here");
	jail_engine.sweep(knows_nothing, NULL);
	end(g);
	wait_until_absent(dead.id);
	tear_down();
}

static void count_kept(const char *id, uint64_t keeper, void *arg)
{
	(void)id;
	CHECK_INT(keeper, 77);
	(*(int *)arg)++;
}

static int kept(void)
{
	int n = 0;

	jail_engine.each_kept(count_kept, &n);
	return n;
}

static void keep_and_resume(bool is_plain)
{
	struct guest_spec spec;
	struct guest *g;

	set_up(is_plain);
	spec = make_spec(60);
	spec.keeper = 77;
	g = start(&spec);
	CHECK_STR(say(g, "root echo here > /home/user/mark && chown 1000 /home/user/mark && "
	                 "chmod 640 /home/user/mark && rm /usr/bin/true"),
	          "");
	CHECK_STR(say(g, "root find / -xdev -name keeper"), ""); /* the mark is out of sight */
	end(g);
	CHECK_INT(kept(), 1);
	spec.is_resumed = 1;
	g = start(&spec);
	jail_engine.leave();
	probe();
	jail_engine.sweep(knows_nothing, NULL);
	g = start(&spec); /* waits until what the sweep found is gone */
	CHECK_STR(say(g, "user cat /home/user/mark"), "here");
	end(g);
	/* The machine starts anew: nothing but the data directory stays. */
	jail_engine.leave();
	CHECK_INT(tree_remove(AT_FDCWD, t.run), 0);
	CHECK_INT(mkdir(t.run, 0755), 0);
	probe();
	jail_engine.sweep(knows_nothing, NULL);
	CHECK_INT(kept(), 1);
	spec.slot = 61; /* another uid range: the layer does not care */
	g = start(&spec);
	CHECK_STR(say(g, "user cat /home/user/mark && stat -c '%a %u' /home/user/mark"),
	          "here\n640 1000");
	CHECK_STR(say(g, "user test -e /usr/bin/true || echo gone"), "gone");
	end(g);
	CHECK_INT(jail_engine.discard(spec.id, on_gone, NULL), 1);
	CHECK_INT(loop_run(t.loop), 0);
	CHECK_INT(kept(), 0);
	CHECK_INT(jail_engine.discard(spec.id, on_gone, NULL), 0);
	t.is_failed = jail_engine.start(&spec, on_started, on_ended, NULL, &g, &t.err) < 0;
	CHECK(t.is_failed);
	CHECK(strstr(t.err.message, "no files were kept") != NULL);
	wait_until_absent(spec.id);
	tear_down();
	CHECK_STR(leftovers(), "");
}

TEST_FORKED(a_kept_layer_outlives_guest_and_broker_and_is_started_over, 60)
{
	keep_and_resume(/* is_plain= */ false);
}

TEST_FORKED(a_plain_layer_is_kept_the_same_way, 60)
{
	keep_and_resume(/* is_plain= */ true);
}

TEST_FORKED(twenty_lives_leave_nothing_behind, 120)
{
	set_up(false);
	CHECK(strstr(leftovers(), "layers") != NULL); /* it can tell */
	for (uint32_t i = 0; i < 20; i++) {
		struct guest_spec spec = make_spec(20 + i);
		struct guest *g = start(&spec);

		CHECK_STR(say(g, "user echo hi; sleep 100 >/dev/null 2>&1 &"), "hi");
		end(g);
	}
	tear_down();
	CHECK_STR(leftovers(), "");
}

TEST_FORKED(plain_storage_works_and_says_what_is_missing, 60)
{
	struct guest_spec spec;
	struct guest *g;

	set_up(true);
	CHECK(jail_engine.isolation().gaps & BIT(WALL_DISK_LIMIT));
	spec = make_spec(50);
	g = start(&spec);
	CHECK_STR(say(g, "user mkdir -p /tmp/a/b/c && echo deep > /tmp/a/b/c/d && cat "
	                 "/tmp/a/b/c/d"),
	          "deep");
	end(g);
	tear_down();
}
