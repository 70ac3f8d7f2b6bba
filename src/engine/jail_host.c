// SPDX-License-Identifier: Apache-2.0
/* Opens what all guests share: storage, template, cgroups, the filter, and fds that outlive
 * them. */
#include "engine/jail_host.h"

#include "base/buf.h"
#include "base/log.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/spawner_process.h"
#include "engine/jail/jail_child.h"
#include "engine/jail/memory/criu_order.h"
#include "engine/jail/zygote/zygote_child.h"
#include "engine/linux/dir_tree.h"
#include "engine/linux/namespaces.h"
#include "engine/linux/syscalls.h"
#include "engine/template/host_root.h"
#include "engine/template/image_build.h"
#include "engine/template/image_build_child.h"
#include "engine/vm/child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MOUNTINFO_MAX (4 << 20)
/* Of the package's service (packaging/systemd), whose sandboxes have a unit of their own. */
#define UNIT_RUN_DIR "/run/cloche"
#define UNIT_GROUP   "system.slice/cloche-sandboxes.service"

static void (*const mains[SPAWNER_KINDS])(struct jail *jail) = {
	[SPAWNER_GUEST] = jail_child_run,
	[SPAWNER_ZYGOTE] = zygote_child_run,
	[SPAWNER_IMAGE_BUILD] = image_build_child_run,
	[SPAWNER_VM] = vm_child_run,
	[SPAWNER_FOUNDER] = jail_founder_run,
};

/* The owners' shares are part of the room, which grows and shrinks with the disk. */
static void on_disk_changed(const struct host_disk *disk, void *arg)
{
	struct guest_host *host = arg;
	owners_set_room(&host->owners, &host->storage, disk->layers_limit_bytes);
	if (host->disk_changed)
		host->disk_changed(disk, host->disk_arg);
}

int jail_set_owner(struct guest_host *host, const char *layer, uint64_t owner, struct err *err)
{
	return owners_assign(&host->owners, &host->storage, layer, owner, err);
}

void jail_disk(struct guest_host *host, struct host_disk *ret)
{
	room_get(&host->room, ret);
}

void jail_each_image(struct guest_host *host, void (*fn)(const struct image_info *info, void *arg),
                     void *arg)
{
	images_each(&host->images, fn, arg);
}

int jail_remove_image(struct guest_host *host, const struct digest *image, struct err *err)
{
	list_for_each (&host->guests, struct guest, g, link)
		if (digest_equal(&g->spec.image, image))
			return err_set(err, ERR_CONFLICT, EBUSY, "sandbox %s runs on it",
			               g->spec.id);
	if (image_build_needs(image))
		return err_set(err, ERR_CONFLICT, EBUSY, "an image is being made over it");
	zygotes_drop(host->zygotes, image);
	return images_remove(&host->images, image, err);
}

/* The mark is there as long as the option is on because of us. So the next broker may take it away,
 * and a daemon that finds it on without a mark leaves it alone. */
static void favor_moves(const char *mark, const char *mountinfo, bool is_on)
{
	int r = 0;

	if (is_on)
		r = cgroup_set_favor_moves(mountinfo, true);
	else if (access(mark, F_OK) == 0)
		r = cgroup_set_favor_moves(mountinfo, false);
	if (r == 1 && is_on)
		r = fd_replace_file(AT_FDCWD, mark, "", 0, 0600, /* sync= */ false);
	else if (r >= 0 && !is_on)
		(void)unlink(mark);
	if (r < 0)
		log_info("cgroup.moves_are_slow", "errno=%d", -r);
}

static void stop_favoring_moves(struct guest_host *host)
{
	struct buf mountinfo = BUF_INIT(MOUNTINFO_MAX);

	if (host->favor_mark && buf_append_file(&mountinfo, "/proc/self/mountinfo") >= 0)
		favor_moves(host->favor_mark, buf_str(&mountinfo), false);
	buf_done(&mountinfo);
}

static int open_cgroups(struct guest_host *host, const struct engine_host *given, struct err *err)
{
	struct buf mountinfo = BUF_INIT(MOUNTINFO_MAX);
	const char *run_dir = given->run_dir;
	const char *home = strcmp(run_dir, UNIT_RUN_DIR) == 0 ? UNIT_GROUP : NULL;
	uint32_t hash = 2166136261U;
	char parent[32];
	int r = buf_append_file(&mountinfo, "/proc/self/mountinfo");

	/* Daemons with different run directories can run side by side. */
	for (const char *p = run_dir; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619U;
	(void)snprintf(parent, sizeof(parent), "cloche-%08x", hash);
	if (r < 0)
		r = err_set(err, ERR_INTERNAL, -r, "cannot read mountinfo");
	else
		r = cgroup_host_open(&host->cgroups, "", buf_str(&mountinfo), home, parent, err);
	host->favor_mark = xasprintf("%s/favordynmods", run_dir);
	if (r == 0)
		favor_moves(host->favor_mark, buf_str(&mountinfo), given->favors_moves);
	buf_done(&mountinfo);
	return r;
}

static int open_dirs(struct guest_host *host, const struct engine_host *given, struct err *err)
{
	host->data_dir = realpath(given->data_dir, NULL);
	if (!host->data_dir)
		return err_set(err, ERR_INTERNAL, errno, "no directory '%s'", given->data_dir);
	host->sandboxes_dir = xasprintf("%s/sandboxes", given->run_dir);
	if (mkdir(host->sandboxes_dir, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", host->sandboxes_dir);
	host->sandboxes_fd =
		open(host->sandboxes_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	host->usr_fd = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	host->net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (host->sandboxes_fd < 0 || host->usr_fd < 0 || host->net_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open what all sandboxes share");
	return 0;
}

/* Tries a start's mounts once, so that a host that cannot do them is reported at once. */
static int try_mounts(struct guest_host *host, pid_t pid, struct err *err)
{
	const int dirs[] = {host->template_fd, host->usr_fd, host->storage.fd};
	char path[48];
	auto_fd int userns_fd = -1;
	int r = namespaces_write_id_maps(pid, /* slot= */ 0, err);

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	userns_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (r == 0 && userns_fd < 0)
		r = err_set(err, ERR_UNSUPPORTED, errno, "cannot open a user namespace");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++) {
		auto_fd int fd = -1;

		r = namespaces_idmapped_mount(dirs[i], userns_fd, /* is_read_only= */ true, &fd,
		                              err);
	}
	return r;
}

static int check_namespaces(struct guest_host *host, struct err *err)
{
	struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	pid_t pid = sys_clone3(&args);
	int r;

	if (pid < 0)
		return err_set(err, ERR_UNSUPPORTED, errno, "cannot make a user namespace");
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever becomes of the broker */
		for (;;)
			(void)pause();
	}
	r = try_mounts(host, pid, err);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return r;
}

static void end_guest(const char *id, void *arg)
{
	struct guest_host *host = arg;
	struct err ignored;

	log_warn("jail.half_restored", "id=%s", id);
	(void)!cgroup_freeze(&host->cgroups, id, false, &ignored);
	cgroup_kill(&host->cgroups, id);
}

/* Guests hold the layers' filesystem: if it has failed, it cannot be mounted again before they
 * end. */
static int open_storage(struct guest_host *host, const struct engine_host *given, struct err *err)
{
	if (!given->is_plain_storage && storage_is_broken(host->data_dir))
		cgroup_each(&host->cgroups, end_guest, host);
	return storage_open(&host->storage, host->data_dir, given->is_plain_storage,
	                    given->disk_reserve, given->disk_ahead, err);
}

/* Without a starter nothing can be started, and the seccomp filter forbids making another. So the
 * broker exits. The sandboxes go on: the next broker adopts them and has a new starter. */
static void on_starter_lost(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static int open_starter(struct guest_host *host, struct err *err)
{
	const struct starter_job jobs[HOST_JOB_COUNT] = {
		[HOST_JOB_NAMESPACE] = {.run = spawner_found_run, .arg = host},
		[HOST_JOB_SPAWNER] = {.run = spawner_run, .arg = host},
		[HOST_JOB_CRIU] = {.run = criu_order_run, .arg = host},
	};
	const struct starter_spec spec = {.name = "cloche-starter",
	                                  .jobs = jobs,
	                                  .n_jobs = ARRAY_SIZE(jobs),
	                                  .lost = on_starter_lost};
	int r = starter_new(host->loop, &spec, &host->starter);

	return r < 0 ? err_set(err, ERR_CAPACITY, -r, "cannot make the starter") : 0;
}

static void count_id(const char *id, void *arg)
{
	(void)id;
	++*(unsigned *)arg;
}

void jail_host_close(struct guest_host *host, bool is_over)
{
	room_close(&host->room);
	owners_close(&host->owners);
	weigh_close(&host->weigh);
	deferred_close_done(&host->deferred);
	unknown_children_done(&host->unknown_children);
	zygotes_done(host->zygotes);
	spawner_done(&host->spawner);
	starter_free(host->starter);
	storage_close(&host->storage, /* unmount= */ is_over);
	if (is_over)
		stop_favoring_moves(host);
	if (is_over)
		cgroup_host_remove(&host->cgroups);
	else
		cgroup_host_close(&host->cgroups);
	criu_tmpfs_close(&host->criu_tmpfs);
	images_close(&host->images);
	close_fd(&host->template_fd);
	close_fd(&host->usr_fd);
	close_fd(&host->net_fd);
	close_fd(&host->sandboxes_fd);
	if (is_over && host->sandboxes_dir)
		(void)rmdir(host->sandboxes_dir);
	free(host->favor_mark);
	free(host->sandboxes_dir);
	free(host->data_dir);
	free(host->zygotes);
	free(host);
}

int jail_host_open(const struct engine_host *given, struct guest_host **ret, struct err *err)
{
	struct guest_host *host = xnew0(struct guest_host);
	unsigned guests = 0;
	int r;

	host->loop = given->loop;
	host->agent_fd = given->agent_fd;
	host->vmm_fd = given->vmm_fd;
	host->mains = mains;
	host->final = given->final;
	host->final_arg = given->final_arg;
	host->sandboxes_max = given->sandboxes_max;
	kernel_shares_read(host->sandboxes_max, host->shares);
	host->sandboxes_fd = host->usr_fd = host->net_fd = host->template_fd = host->storage.fd =
		host->storage.data_fd = host->storage.image_fd = host->criu_tmpfs.fd = -1;
	spawner_init(&host->spawner, host);
	host->zygotes = xnew0(struct zygotes);
	zygotes_init(host->zygotes, host, given->kernels_dir ? given->warm_modules : NULL);
	list_init(&host->guests);
	if (geteuid() != 0)
		return err_set(err, ERR_UNSUPPORTED, EPERM, "the jail engine needs root");
	(void)umask(022); /* modes in skeletons, layers and shares are meant as written */
	/* The agent's binary is not readable inside: then the kernel lets nobody there inspect its
	 * process, not even root. */
	if (fchmod(given->agent_fd, 0111) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot set the agent's mode");
	r = open_dirs(host, given, err);
	if (r == 0)
		dir_tree_each_id(host->sandboxes_fd, count_id, &guests);
	if (r == 0)
		r = seccomp_build(&host->filter, err);
	if (r == 0)
		r = open_cgroups(host, given, err);
	if (r == 0)
		r = open_storage(host, given, err);
	if (r == 0)
		r = criu_tmpfs_open(&host->criu_tmpfs, given->run_dir, err);
	if (r == 0)
		r = images_open(&host->images, host->data_dir, given->run_dir, err);
	if (r == 0)
		r = host_root_open(host->data_dir, given->agent_fd, given->kernels_dir,
		                   &host->template_fd, err);
	if (r == 0)
		r = check_namespaces(host, err);
	if (r < 0) {
		jail_host_close(host, /* is_over= */ guests == 0);
		return r;
	}
	owners_open(&host->owners, &host->storage, given->disk_share);
	weigh_open(&host->weigh, host);
	host->disk_changed = given->disk_changed;
	host->disk_arg = given->disk_arg;
	room_open(&host->room, &host->storage, given->loop, given->disk_reserve, given->disk_ahead,
	          on_disk_changed, host);
	disk_snapshots_open(host);
	criu_open(host);
	if (guests == 0)
		host_root_prune(host->data_dir, host->template_fd);
	r = open_starter(host, err);
	if (r < 0) {
		jail_host_close(host, /* is_over= */ guests == 0);
		return r;
	}
	*ret = host;
	return 0;
}
