// SPDX-License-Identifier: Apache-2.0
/* The gateway's walls, the launcher's preparations. What they are together is for the functional
 * tests. */
#include "base/fd.h"
#include "daemon/child.h"
#include "daemon/confine/confine.h"
#include "daemon/daemon.h"
#include "daemon/listen.h"
#include "daemon/probe/probe.h"
#include "daemon/site.h"
#include "test.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define REFUSED(call) (errno = 0, (call) < 0 ? errno : 0)

TEST_FORKED(a_confined_gateway_can_start_nothing_and_open_no_socket, 10)
{
	char *const argv[] = {unconst("true"), NULL};
	pid_t parent = getppid();

	CHECK_INT(confine_calls(CONFINE_GATEWAY), 0);
	CHECK_INT(REFUSED(execve("/bin/true", argv, NULL)), EPERM);
	CHECK_INT(REFUSED((int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)), EPERM);
	CHECK_INT(REFUSED(socket(AF_INET, SOCK_STREAM, 0)), EPERM);
	CHECK_INT(REFUSED(socket(AF_UNIX, SOCK_STREAM, 0)), EPERM);
	CHECK_INT(REFUSED(ptrace(PTRACE_TRACEME, 0, NULL, NULL)), EPERM);
	CHECK_INT(REFUSED(mount("none", "/tmp", "tmpfs", 0, NULL)), EPERM);
	CHECK_INT(REFUSED(unshare(CLONE_NEWUSER)), EPERM);
	CHECK_INT(REFUSED(kill(parent, 0)), EPERM);
	CHECK_INT(REFUSED((int)syscall(SYS_tgkill, parent, parent, 0)), EPERM);
	CHECK_INT(REFUSED(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)), EPERM);
	CHECK_INT(REFUSED(chmod("/tmp", 0777)), EPERM);
}

/* Calls that do no harm where they are not refused, which the control shows: there each has another
 * end than EPERM. */
static const struct {
	const char *name;
	long number, args[4];
} refused_of_broker[] = {
	{"ptrace", SYS_ptrace, {PTRACE_PEEKDATA, 1}},
	{"process_vm_readv", SYS_process_vm_readv, {-1}},
	{"pidfd_getfd", SYS_pidfd_getfd, {-1, -1}},
	{"io_uring_setup", SYS_io_uring_setup, {0}},
	{"keyctl", SYS_keyctl, {-1}},
	{"personality", SYS_personality, {-1}},
	{"swapoff", SYS_swapoff, {0}},
	{"open_by_handle_at", SYS_open_by_handle_at, {-1}},
	{"clock_settime", SYS_clock_settime, {-1}},
	{"quotactl", SYS_quotactl, {-1}},
};

static int call_refused(size_t i)
{
	const long *args = refused_of_broker[i].args;

	return REFUSED(syscall(refused_of_broker[i].number, args[0], args[1], args[2], args[3]));
}

TEST_FORKED(H02_a_call_that_the_broker_has_no_need_of_is_refused_and_told_by_its_name_once, 10)
{
	char text[16384] = "";
	int log[2];

	for (size_t i = 0; i < ARRAY_SIZE(refused_of_broker); i++)
		CHECK(call_refused(i) != EPERM); /* the control */
	CHECK_INT(pipe(log), 0);
	CHECK_INT(dup2(log[1], STDERR_FILENO), STDERR_FILENO);
	log_init("broker", LOG_INFO);
	CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_INT(confine_calls(CONFINE_BROKER), 0);
	for (size_t i = 0; i < ARRAY_SIZE(refused_of_broker); i++) {
		CHECK_INT(call_refused(i), EPERM);
		CHECK_INT(call_refused(i), EPERM);
	}
	CHECK_INT(unshare(CLONE_NEWNS), 0); /* what it needs it has */
	CHECK(read(log[0], text, sizeof(text) - 1) > 0);
	for (size_t i = 0; i < ARRAY_SIZE(refused_of_broker); i++) {
		char fact[64];
		const char *at;

		(void)snprintf(fact, sizeof(fact), "\"call\":\"%s\"", refused_of_broker[i].name);
		at = strstr(text, fact);
		CHECK(at != NULL && strstr(at + 1, fact) == NULL);
	}
}

TEST_FORKED(H02_a_launcher_can_start_nothing, 10)
{
	char *const argv[] = {unconst("true"), NULL};
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid); /* the control */
	CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_INT(confine_calls(CONFINE_LAUNCHER), 0);
	CHECK_INT(REFUSED(execve("/bin/true", argv, NULL)), EPERM);
	CHECK_INT(REFUSED((int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)), EPERM);
	CHECK_INT(REFUSED(unshare(CLONE_NEWNS)), EPERM);
	CHECK_INT(REFUSED(mount("none", "/tmp", "tmpfs", 0, NULL)), EPERM);
	CHECK_INT(REFUSED((int)syscall(SYS_init_module, NULL, 0, NULL)), EPERM);
}

TEST_FORKED(a_confined_gateway_cannot_map_code, 10)
{
	void *page;

	CHECK_INT(confine_calls(CONFINE_GATEWAY), 0);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	CHECK_INT(REFUSED(mprotect(page, 4096, PROT_READ | PROT_EXEC)), EPERM);
	CHECK_INT(mprotect(page, 4096, PROT_READ), 0);
	CHECK(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
	      MAP_FAILED);
}

struct worker {
	struct loop *loop;
	pid_t tid;
	int refused;
};

static int try_socket(void *arg)
{
	struct worker *w = arg;

	w->tid = (pid_t)syscall(SYS_gettid);
	w->refused = REFUSED(socket(AF_INET, SOCK_STREAM, 0));
	return fdatasync(-1) < 0 ? -errno : 0;
}

static void on_tried(int result, void *arg)
{
	struct worker *w = arg;

	CHECK_INT(result, -EBADF);
	loop_stop(w->loop);
}

/* In a child of the test: becomes the gateway, looks round, then waits to be looked at. */
static void be_confined(const char *dir, int done_fd, int wait_fd)
{
	struct err err = {0};
	struct worker worker = {0};
	struct work *work;
	char byte;

	CHECK_INT(confine(
			  &(struct confine_plan){
				  .root_dir = dir, .uid = 64000, .gid = 64000, .ret_work = &work},
			  &err),
	          0);
	CHECK_INT(loop_new(&worker.loop, &err), 0);
	CHECK_INT(work_attach(work, worker.loop), 0);
	work_do(work, try_socket, on_tried, &worker);
	CHECK_INT(loop_run(worker.loop), 0);
	CHECK_INT(worker.refused, EPERM);
	CHECK_INT(open("/etc/passwd", O_RDONLY | O_CLOEXEC), -1);
	CHECK_INT(REFUSED(setuid(0)), EPERM);
	CHECK_INT(REFUSED(chroot(".")), EPERM);
	CHECK(open("/mine", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0);
	CHECK_INT(unlink("/mine"), 0);
	CHECK_INT(write(done_fd, &worker.tid, sizeof(worker.tid)), sizeof(worker.tid));
	CHECK_INT(read(wait_fd, &byte, 1), 0);
	_exit(0);
}

TEST_FORKED(a_confined_gateway_has_no_rights_and_sees_only_its_directory, 10)
{
	static const char *const lines[] = {"Uid:\t64000\t64000\t64000\t64000\n",
	                                    "Gid:\t64000\t64000\t64000\t64000\n",
	                                    "Groups:\t \n",
	                                    "CapPrm:\t0000000000000000\n",
	                                    "CapEff:\t0000000000000000\n",
	                                    "CapBnd:\t0000000000000000\n",
	                                    "CapAmb:\t0000000000000000\n",
	                                    "NoNewPrivs:\t1\n",
	                                    "Seccomp:\t2\n"};
	char dir[] = "/tmp/test-daemon-XXXXXX";
	char path[64], status[2][8192];
	int done[2], wait[2];
	pid_t tids[2];
	pid_t pid;
	int result;

	if (geteuid() != 0)
		SKIP("needs root");
	CHECK(mkdtemp(dir) != NULL);
	CHECK_INT(chown(dir, 64000, 64000), 0);
	CHECK_INT(pipe2(done, O_CLOEXEC), 0);
	CHECK_INT(pipe2(wait, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		(void)close(wait[1]);
		be_confined(dir, done[1], wait[0]);
	}
	(void)close(done[1]);
	tids[0] = pid;
	CHECK_INT(read(done[0], &tids[1], sizeof(tids[1])), sizeof(tids[1]));
	for (size_t i = 0; i < ARRAY_SIZE(tids); i++) { /* its own, and the one beside */
		(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid,
		               (int)tids[i]);
		CHECK(fd_read_file(AT_FDCWD, path, status[i], sizeof(status[i])) > 0);
	}
	(void)close(wait[1]);
	CHECK_INT(waitpid(pid, &result, 0), pid);
	CHECK_INT(rmdir(dir), 0);
	CHECK_INT(result, 0);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(lines); i++) {
		bool has_line = strstr(status[i % 2], lines[i / 2]) != NULL;

		if (!has_line)
			print_error("no line %zu in:\n%s\n", i / 2, status[i % 2]);
		CHECK(has_line);
	}
}

TEST(an_address_is_read_whole_or_refused)
{
	static const char *const good[] = {"127.0.0.1:7070", "0.0.0.0:0", "[::1]:65535",
	                                   "localhost:80", "[::]:1"};
	static const char *const bad[] = {
		"",          "7070",         ":7070",         "127.0.0.1", "::1:7070",
		"[::1]7070", "127.0.0.1:",   "127.0.0.1:x",   "host:7070", "127.0.0.1:65536",
		"1.2.3:80",  "127.0.0.1:-1", "[127.0.0.1]:80"};
	struct listen_address a;
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK_INT(listen_parse(good[i], &a, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(listen_parse(bad[i], &a, &err) < 0);
}

TEST(a_listener_on_port_0_tells_its_port)
{
	auto_fd int fd = -1;
	struct err err;
	char name[64];

	CHECK_INT(listen_tcp("127.0.0.1:0", &fd, &err), 0);
	listen_name(fd, name, sizeof(name));
	CHECK_INT(strncmp(name, "127.0.0.1:", 10), 0);
	CHECK(strcmp(name, "127.0.0.1:0") != 0);
}

TEST(a_taken_port_is_told_with_a_hint)
{
	auto_fd int fd = -1;
	int other;
	struct err err = {0};
	char name[64];

	CHECK_INT(listen_tcp("127.0.0.1:0", &fd, &err), 0);
	listen_name(fd, name, sizeof(name));
	CHECK_INT(listen_tcp(name, &other, &err), -EADDRINUSE);
	CHECK(err.hint[0] != '\0');
}

static char base_dir[64];

static void make_base(struct config *c, char *data, char *run)
{
	(void)snprintf(base_dir, sizeof(base_dir), "/tmp/test-daemon-XXXXXX");
	CHECK(mkdtemp(base_dir) != NULL);
	(void)snprintf(data, 128, "%s/a/data", base_dir);
	(void)snprintf(run, 128, "%s/run", base_dir);
	config_init(c);
	free(c->data_dir);
	free(c->run_dir);
	c->data_dir = xstrdup(data);
	c->run_dir = xstrdup(run);
	c->socket = xasprintf("%s/cloche.sock", run);
	c->agent = xstrdup("/proc/self/exe");
	free(c->listen[0]);
	c->listen[0] = xstrdup("none");
	log_init("test", LOG_ERROR + 1);
}

/* The drivers of the interpreters lie beside cloche, not beside this program. */
static void init_site(struct site *site, const struct config *c)
{
	site_init(site, c);
	site->kernels_dir = xstrdup("/");
}

static void remove_base(const char *data)
{
	static const char *const below[] = {"gateway/spool", "gateway"};
	char path[192];

	(void)snprintf(path, sizeof(path), "%s/admin.key", data);
	(void)unlink(path);
	for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", data, below[i]);
		CHECK_INT(rmdir(path), 0);
	}
	CHECK_INT(rmdir(data), 0);
	(void)snprintf(path, sizeof(path), "%s/a", base_dir);
	CHECK_INT(rmdir(path), 0);
	CHECK_INT(rmdir(base_dir), 0);
}

static void check_owner(const char *dir, const char *name, uid_t uid, mode_t mode)
{
	char path[192];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	CHECK_INT(lstat(path, &st), 0);
	CHECK_INT(st.st_uid, uid);
	CHECK_INT(st.st_mode & 07777, mode);
}

TEST(a_site_has_the_right_owners_and_is_gone_after_clear)
{
	struct config c;
	struct site site;
	struct err err = {0};
	char data[128], run[128];

	if (geteuid() != 0)
		SKIP("needs root");
	make_base(&c, data, run);
	init_site(&site, &c);
	CHECK_INT(site_prepare(&site, &err), 0);
	check_owner(data, ".", 0, 0711);
	check_owner(data, "gateway", site.uid, 0700);
	check_owner(data, "gateway/spool", site.uid, 0700);
	check_owner(run, ".", 0, 0755);
	check_owner(run, "sandboxes", 0, 0700);
	check_owner(run, "cloche.sock", 0, 0660);
	CHECK(site.uid != 0);
	CHECK_INT(fcntl(site.agent_fd, F_GET_SEALS),
	          F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	site_clear(&site);
	CHECK_INT(access(run, F_OK), -1);
	site_done(&site);
	config_done(&c);
	remove_base(data);
}

TEST(a_second_daemon_on_the_same_run_directory_is_refused)
{
	struct config c;
	struct site first, second;
	struct err err = {0};
	char data[128], run[128], wanted[64];

	if (geteuid() != 0)
		SKIP("needs root");
	make_base(&c, data, run);
	init_site(&first, &c);
	init_site(&second, &c);
	CHECK_INT(site_prepare(&first, &err), 0);
	CHECK_INT(site_prepare(&second, &err), -EALREADY);
	(void)snprintf(wanted, sizeof(wanted), "already running, pid %d", (int)getpid());
	CHECK_INT(strncmp(err.message, wanted, strlen(wanted)), 0);
	site_clear(&second);
	CHECK_INT(access(c.socket, F_OK), 0); /* the first one's things stay */
	site_clear(&first);
	site_done(&second);
	site_done(&first);
	config_done(&c);
	remove_base(data);
}

TEST(a_directory_of_someone_else_is_refused_with_the_remedy)
{
	struct config c;
	struct site site;
	struct err err = {0};
	char data[128], run[128];

	if (geteuid() != 0)
		SKIP("needs root");
	make_base(&c, data, run);
	init_site(&site, &c);
	CHECK_INT(mkdir(run, 0755), 0);
	CHECK_INT(chown(run, 12345, 12345), 0);
	CHECK(site_prepare(&site, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK(strstr(err.hint, "chown -R 0:0") != NULL);
	CHECK_INT(rmdir(run), 0);
	CHECK_INT(rmdir(data), 0);
	(void)snprintf(data, sizeof(data), "%s/a", base_dir);
	CHECK_INT(rmdir(data), 0);
	CHECK_INT(rmdir(base_dir), 0);
	site_done(&site);
	config_done(&c);
}

TEST_FORKED(a_child_keeps_only_the_fds_that_it_was_given, 10)
{
	struct config c;
	int kept = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int lost = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int far = fcntl(lost, F_DUPFD_CLOEXEC, 500);

	config_init(&c);
	c.log_level = LOG_ERROR;
	child_begin("test", &c, &kept, 1);
	CHECK(fcntl(kept, F_GETFD) >= 0);
	CHECK_INT(fcntl(lost, F_GETFD), -1);
	CHECK_INT(fcntl(far, F_GETFD), -1);
	CHECK(fcntl(STDERR_FILENO, F_GETFD) >= 0);
	config_done(&c);
}

TEST(every_probe_of_the_doctor_says_what_it_found)
{
	static const probe_fn probes[] = {
		probe_kernel,        probe_clone3,       probe_pidfd,       probe_openat2,
		probe_seccomp,       probe_landlock,     probe_userns,      probe_overlay,
		probe_idmap,         probe_nftables,     probe_root,        probe_cgroups,
		probe_cgroup_memory, probe_cgroup_cpu,   probe_cgroup_pids, probe_cgroup_freezer,
		probe_btrfs,         probe_mkfs_btrfs,   probe_loop,        probe_kvm,
		probe_qemu,          probe_criu,         probe_cpu_flaws,   probe_user,
		probe_daemon,        probe_guest_kernel,
	};

	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		char detail[PROBE_DETAIL_SIZE] = "";

		(void)probes[i](detail);
		CHECK(detail[0] != '\0');
	}
	CHECK_INT(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}
