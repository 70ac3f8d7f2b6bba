// SPDX-License-Identifier: Apache-2.0
/*
 * Broker and gateway live and die together: each sees the end of the other as the end of the socket
 * between them. The launcher waits until all are gone, then starts them again. Wall and dialer end
 * with them too. But if one of these dies alone, for example because of hostile bytes from outside,
 * only that one is started again, and the gateway gets its new socket over the control socket.
 *
 *	starting --> up --+--> falling (one died, the other ends too) --> resting --> starting
 *	   |              +--> stopping (asked to) --> done
 *	   +--> done: a pair that was never up is not tried again; a person must see its error
 *
 * SIGHUP brings new settings in the same way: if they can be read, gateway and broker shut down
 * cleanly, and new ones take over sandboxes and listeners (up --> reloading --> starting). If they
 * do not start with the new settings, the old ones are used again.
 *
 * Pairs that die soon after their start are started again after growing pauses, and then given up,
 * so that an error in the data does not become a busy loop. A pair that was up and was then killed
 * by SIGKILL does not count: that was an operator, or the kernel short of memory.
 *
 * A part that is stuck, because it was stopped or spins, is killed and so replaced (watchdog.h).
 * The gateway is told what was replaced and why, and writes it to the event log.
 */
#include "daemon/launcher.h"

#include "base/fd.h"
#include "base/units.h"
#include "daemon/confine/confine.h"
#include "daemon/notify.h"
#include "daemon/part_starter.h"
#include "daemon/watchdog.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define START_MAX_US    (1800 * SECOND_US) /* of parts that are busy all the time */
#define START_IDLE_US   (120 * SECOND_US)  /* of parts that only wait */
#define STOP_MAX_US     (60 * SECOND_US)   /* --rm deletes many sandboxes, each may take a second */
#define FALL_MAX_US     (15 * SECOND_US)   /* beyond the broker's own patience */
#define QUICK_LIFE_US   (10 * SECOND_US)
#define QUICK_LIVES_MAX 5
#define REST_US         (SECOND_US / 10) /* doubled with each quick life */
#define ALONE_REST_US   (SECOND_US / 5)  /* doubled with each that follows soon */
#define ALONE_MOST_US   (10 * SECOND_US)

enum role { ROLE_BROKER, ROLE_DIALER, ROLE_WALL, ROLE_GATEWAY, ROLE_COUNT };
static const struct {
	const char *name;
	enum child_part letter;
	bool is_alone; /* may die and be replaced alone; the gateway gets its successor */
} roles[] = {
	[ROLE_BROKER] = {"broker", CHILD_BROKER, false},
	[ROLE_DIALER] = {"dialer", CHILD_DIALER, true},
	[ROLE_WALL] = {"wall", CHILD_WALL, true},
	[ROLE_GATEWAY] = {"gateway", CHILD_GATEWAY, false},
};
static_assert(ARRAY_SIZE(roles) == ROLE_COUNT, "a role has no row");

enum phase {
	PHASE_STARTING,
	PHASE_UP,
	PHASE_FALLING,
	PHASE_RESTING,
	PHASE_RELOADING,
	PHASE_STOPPING
};

struct launcher;

struct child {
	struct launcher *launcher;
	enum role role;
	struct loop_child *watch; /* NULL: not running */
	int control_fd;
	struct loop_io *control_io;
	struct loop_timer *rest; /* until a part that died alone is replaced */
	uint64_t rest_us, started_us;
	pid_t pid;
	struct watchdog watchdog;
	struct watchdog_look start_look; /* the last one while all start */
	bool is_stuck;                   /* and was killed for it */
};

struct launcher {
	const struct site *site;
	struct part_starter starter;
	void (*ready)(const struct site *site);
	struct loop *loop;
	enum phase phase;
	struct child children[ROLE_COUNT];
	struct loop_timer *timer; /* patience of the phase */
	struct loop_timer *look;  /* at the parts, and for systemd's own watchdog */
	struct child_loss lost;   /* reported to the next gateway */
	struct loop_io *life_io;  /* of who started us for itself */
	uint64_t started_us;
	uint64_t looked_us, idle_us; /* while all start: the last look, how long nobody was busy */
	unsigned quick_lives;
	bool was_up;
	bool wants_reload, wants_stop; /* asked for at a time when it cannot be done */
	bool was_killed;               /* the first of this pair to end, while it was up */
	bool has_err;
	struct err err;
};

static void start_pair(struct launcher *l);
static void on_stop(struct loop *loop, void *arg);
static void on_reload(struct loop *loop, void *arg);
static void on_look(struct loop *loop, void *arg);
static void on_patience_end(struct loop *loop, void *arg);

static bool is_running(const struct launcher *l)
{
	for (size_t i = 0; i < ROLE_COUNT; i++)
		if (l->children[i].watch)
			return true;
	return false;
}

static void send_signal(const struct child *c, int signo)
{
	if (c->watch)
		(void)pidfd_send_signal(loop_child_pidfd(c->watch), signo, NULL, 0);
}

static void move(struct launcher *l, enum phase phase, uint64_t patience_us)
{
	l->phase = phase;
	if (patience_us == UINT64_MAX)
		loop_timer_set(l->timer, UINT64_MAX);
	else
		loop_timer_set_in(l->timer, patience_us);
}

static void keep_err(struct launcher *l, const struct err *err)
{
	if (l->has_err)
		return; /* only the first failure matters */
	l->has_err = true;
	l->err = *err;
}

static void finish(struct launcher *l)
{
	loop_stop(l->loop);
}

static void give_up(struct launcher *l)
{
	struct err err;

	(void)err_set(&err, ERR_UNAVAILABLE, 0, "gave up after %u starts that died at once",
	              l->quick_lives);
	(void)err_hint(&err, "the log above says why; sandboxes are left as they are");
	l->has_err = true;
	l->err = err;
	finish(l);
}

/* Called when all are gone. */
static void on_pair_gone(struct launcher *l)
{
	bool was_quick = !l->was_killed && loop_now_us(l->loop) - l->started_us < QUICK_LIFE_US;

	if (l->phase == PHASE_STOPPING) {
		finish(l);
		return;
	}
	if (l->phase == PHASE_RELOADING) {
		start_pair(l);
		return;
	}
	if (part_starter_undo(&l->starter)) {
		log_error("daemon.reload_undone", "error='%s'", l->err.message);
		l->has_err = false;
		start_pair(l);
		return;
	}
	if (!l->was_up) {
		finish(l);
		return;
	}
	l->quick_lives = was_quick ? l->quick_lives + 1 : 1;
	if (l->quick_lives > QUICK_LIVES_MAX) {
		give_up(l);
		return;
	}
	move(l, PHASE_RESTING, REST_US << (l->quick_lives - 1));
}

/* Whether parts end because they were told to. */
static bool is_ending(const struct launcher *l)
{
	return l->phase == PHASE_STOPPING || l->phase == PHASE_RELOADING;
}

static void close_control(struct child *c)
{
	loop_io_removep(&c->control_io);
	if (c->control_fd >= 0)
		(void)close(take_fd(&c->control_fd));
}

static void read_control(struct child *c);

/* What the gateway is told about a lost part, since its clients may wait for that part. */
static struct child_loss loss_of(const struct child *c)
{
	return (struct child_loss){.part = (uint8_t)roles[c->role].letter,
	                           .was_stuck = c->is_stuck};
}

static void follow_alone(struct child *c)
{
	struct launcher *l = c->launcher;
	bool was_quick = loop_now_us(l->loop) - c->started_us < QUICK_LIFE_US;

	c->rest_us = was_quick ? MIN(2 * c->rest_us, ALONE_MOST_US) : ALONE_REST_US;
	l->has_err = false;
	loop_timer_set_in(c->rest, c->rest_us);
}

static void on_child_end(struct loop *loop, int wait_status, void *arg)
{
	struct child *c = arg;
	struct launcher *l = c->launcher;
	struct err err;

	(void)loop;
	c->watch = NULL;
	read_control(c); /* its last word says why, and may come in the same turn */
	close_control(c);
	if (!is_ending(l)) {
		log_warn("daemon.child_died", "name=%s wait_status=0x%x", roles[c->role].name,
		         wait_status);
		(void)err_set(&err, ERR_INTERNAL, 0, "the %s ended with wait status 0x%x",
		              roles[c->role].name, wait_status);
		keep_err(l, &err);
	}
	if (!is_running(l)) {
		on_pair_gone(l);
		return;
	}
	if (roles[c->role].is_alone && l->phase == PHASE_UP) {
		follow_alone(c);
		return;
	}
	if (l->phase == PHASE_UP)
		l->lost = loss_of(c);
	if (l->phase == PHASE_UP)
		l->was_killed = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
	if (!is_ending(l))
		move(l, PHASE_FALLING, FALL_MAX_US);
	if (c->role != ROLE_GATEWAY)
		close_control(&l->children[ROLE_GATEWAY]); /* tells it to stop at once */
}

static void on_up(struct launcher *l)
{
	if (part_starter_keep(&l->starter)) {
		log_init("cloche", l->site->config->log_level);
		log_info("daemon.reloaded", "message='settings are those of the file'");
	}
	if (l->site->config->is_sweep || l->wants_stop) {
		on_stop(l->loop, l);
		return;
	}
	l->ready(l->site);
	if (l->wants_reload)
		on_reload(l->loop, l);
}

static void on_report(struct child *c, const struct child_report *report)
{
	struct launcher *l = c->launcher;
	struct err err = report->err;

	if (!report->is_ready) {
		err.message[sizeof(err.message) - 1] = '\0';
		err.hint[sizeof(err.hint) - 1] = '\0';
		log_error("daemon.start_failed", "name=%s error='%s' hint='%s'",
		          roles[c->role].name, err.message, err.hint);
		keep_err(l, &err);
	} else if (c->role == ROLE_GATEWAY && l->phase == PHASE_STARTING) {
		l->was_up = true;
		l->has_err = false;
		move(l, PHASE_UP, UINT64_MAX);
		l->lost = (struct child_loss){0};
		on_look(l->loop, l); /* by settings that may be new */
		on_up(l);
	}
}

/* Returns whether there may be more. */
static bool read_one(struct child *c)
{
	struct child_report report;
	ssize_t n;

	if (c->control_fd < 0)
		return false;
	n = recv(c->control_fd, &report, sizeof(report), MSG_DONTWAIT);
	if (n == (ssize_t)sizeof(report)) {
		on_report(c, &report);
	} else if (n == 1) {
		watchdog_on_beat(&c->watchdog);
	} else {
		if (n >= 0 || (errno != EAGAIN && errno != EINTR))
			close_control(c); /* it is ending: its pidfd tells */
		return false;
	}
	return true;
}

static void read_control(struct child *c)
{
	while (read_one(c))
		continue;
}

static void on_control(struct loop *loop, uint32_t events, void *arg)
{
	(void)loop;
	(void)events;
	read_control(arg);
}

static void look_at(struct child *c)
{
	struct launcher *l = c->launcher;
	uint64_t most_us = l->site->config->watchdog_ms * 1000;
	struct watchdog_look look;
	uint64_t silent_us;

	if (!c->watch || c->is_stuck || !watchdog_read(c->pid, loop_now_us(l->loop), &look))
		return;
	silent_us = watchdog_on_look(&c->watchdog, &look);
	if (silent_us < most_us)
		return;
	c->is_stuck = true;
	log_error("daemon.part_stuck",
	          "name=%s pid=%d state=%c silent_ms=%" PRIu64
	          " message='it is killed and replaced'",
	          roles[c->role].name, (int)c->pid, look.state, silent_us / 1000);
	notify_status("the %s was stuck and is being replaced", roles[c->role].name);
	send_signal(c, SIGKILL);
}

static bool is_busy(struct child *c)
{
	const struct watchdog_look last = c->start_look;

	if (!c->watch || !watchdog_read(c->pid, loop_now_us(c->launcher->loop), &c->start_look))
		return false;
	return watchdog_is_busy(&last, &c->start_look) || watchdog_has_busy_child(c->pid);
}

/* A start takes as long as it takes: on a slow or busy host a limit in seconds would kill it again
 * and again. But if everybody waits, each for another, it will never end. */
static void look_at_start(struct launcher *l)
{
	uint64_t now_us = loop_now_us(l->loop);
	bool is_anybody_busy = false;

	for (size_t i = 0; i < ROLE_COUNT; i++)
		is_anybody_busy = is_busy(&l->children[i]) || is_anybody_busy;
	if (!is_anybody_busy)
		l->idle_us += MIN(now_us - l->looked_us, WATCHDOG_LOOK_MOST_US);
	l->looked_us = now_us;
	if (l->idle_us >= START_IDLE_US)
		on_patience_end(l->loop, l);
	else if (!l->was_up)
		notify_starting((now_us - l->started_us) / SECOND_US);
}

/* systemd's watchdog looks at a daemon that was ready once. */
static uint64_t systemd_us(const struct launcher *l)
{
	return l->was_up ? notify_watchdog_us() : UINT64_MAX;
}

static uint64_t next_look_us(const struct launcher *l)
{
	uint64_t watchdog_ms = l->site->config->watchdog_ms;
	uint64_t next_us = UINT64_MAX;

	if (watchdog_ms > 0 || l->phase == PHASE_STARTING)
		next_us = watchdog_period_us(watchdog_ms > 0 ? watchdog_ms : UINT64_MAX / 1000);
	return MIN(next_us, systemd_us(l));
}

/* A stop has a timeout of its own, after which all are killed. */
static void on_look(struct loop *loop, void *arg)
{
	struct launcher *l = arg;
	uint64_t watchdog_ms = l->site->config->watchdog_ms, next_us;

	(void)loop;
	if (systemd_us(l) != UINT64_MAX)
		notify_send("WATCHDOG=1");
	if (l->phase == PHASE_STARTING)
		look_at_start(l);
	for (size_t i = 0; watchdog_ms > 0 && l->phase == PHASE_UP && i < ROLE_COUNT; i++) {
		read_control(&l->children[i]); /* a beat may lie there */
		look_at(&l->children[i]);
	}
	next_us = next_look_us(l);
	if (next_us != UINT64_MAX)
		loop_timer_set_in(l->look, next_us);
	else
		loop_timer_set(l->look, UINT64_MAX);
}

static void on_patience_end(struct loop *loop, void *arg)
{
	struct launcher *l = arg;

	(void)loop;
	if (l->phase == PHASE_RESTING) {
		start_pair(l);
		return;
	}
	log_error("daemon.stuck", "phase=%d message='what is left is killed; sandboxes stay'",
	          l->phase);
	for (size_t i = 0; i < ROLE_COUNT; i++)
		send_signal(&l->children[i], SIGKILL);
}

static void on_stop(struct loop *loop, void *arg)
{
	struct launcher *l = arg;

	(void)loop;
	if (l->phase == PHASE_STOPPING) { /* asked twice: now */
		on_patience_end(loop, l);
		return;
	}
	/* A gateway that is being replaced deletes nothing: the next one does so. */
	if (l->phase == PHASE_RELOADING && l->site->config->is_rm && !l->wants_stop) {
		l->wants_stop = true;
		return;
	}
	notify_send("STOPPING=1");
	log_info("daemon.stopping", "rm=%d", l->site->config->is_rm || l->site->config->is_sweep);
	l->has_err = false;
	move(l, PHASE_STOPPING, STOP_MAX_US);
	if (is_running(l))
		send_signal(&l->children[ROLE_GATEWAY], SIGTERM); /* the broker follows */
	else
		finish(l);
}

static void on_reload(struct loop *loop, void *arg)
{
	struct launcher *l = arg;
	struct err err = {0};

	(void)loop;
	l->wants_reload = l->phase != PHASE_UP;
	if (l->wants_reload)
		return;
	if (part_starter_try(&l->starter, &err) < 0) {
		log_error("daemon.reload_refused", "error='%s' hint='settings stay as they were'",
		          err.message);
		return;
	}
	notify_status("settings are being read again; sandboxes run on");
	log_info("daemon.reloading", "message='sandboxes run on'");
	move(l, PHASE_RELOADING, STOP_MAX_US);
	send_signal(&l->children[ROLE_GATEWAY], CHILD_LEAVE_SIGNAL);
}

struct pair_fds {
	int link[ROLE_GATEWAY][2]; /* each role's, the gateway's */
	int control[2];            /* ours, the child's */
	int key;
};
static_assert(ROLE_GATEWAY == ROLE_COUNT - 1, "all others have a link to it");

static const struct pair_fds no_fds = {
	.link = {{-1, -1}, {-1, -1}, {-1, -1}}, .control = {-1, -1}, .key = -1};

static int make_link(struct pair_fds *fds, enum role role, struct err *err)
{
	/* The sockets of the other parts may block. */
	int flags = SOCK_CLOEXEC | (role == ROLE_BROKER ? SOCK_NONBLOCK : 0);

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | flags, 0, fds->link[role]) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a socket pair");
	return 0;
}

static void close_all(const struct pair_fds *fds)
{
	for (size_t i = 0; i < ROLE_GATEWAY; i++)
		for (size_t k = 0; k < 2; k++)
			if (fds->link[i][k] >= 0)
				(void)close(fds->link[i][k]);
	if (fds->key >= 0)
		(void)close(fds->key);
}

static struct part_order order_of(const struct launcher *l, enum role role,
                                  const struct pair_fds *fds)
{
	struct part_order order = {.part = roles[role].letter, .lost = l->lost, .n_fds = 2};

	if (role == ROLE_GATEWAY) {
		for (size_t i = 0; i < ROLE_GATEWAY; i++)
			order.fds[i] = fds->link[i][1];
		order.fds[ROLE_GATEWAY] = fds->key;
		order.n_fds = PART_STARTER_FDS_MAX;
	} else {
		order.fds[0] = fds->link[role][0];
	}
	order.fds[order.n_fds - 1] = fds->control[1];
	return order;
}

static int start_child(struct launcher *l, enum role role, struct pair_fds *fds, struct err *err)
{
	struct child *c = &l->children[role];
	struct part_order order;
	int pidfd, r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds->control) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a socket pair");
	order = order_of(l, role, fds);
	r = part_starter_start(&l->starter, &order, &c->pid, &pidfd);
	(void)close(fds->control[1]);
	c->control_fd = fds->control[0];
	c->started_us = loop_now_us(l->loop);
	c->watchdog = (struct watchdog){0};
	c->start_look = (struct watchdog_look){0};
	c->is_stuck = false;
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot start the %s", roles[role].name);
	r = loop_child_add(l->loop, pidfd, on_child_end, c, &c->watch);
	if (r == 0)
		r = loop_io_add(l->loop, c->control_fd, EPOLLIN, on_control, c, &c->control_io);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot watch the %s", roles[role].name) : 0;
}

/* Starts a successor of a part that died alone. */
static void on_rest_end(struct loop *loop, void *arg)
{
	struct child *c = arg;
	struct launcher *l = c->launcher;
	struct child_loss lost = loss_of(c);
	struct pair_fds fds = no_fds;
	struct err err;
	int r;

	(void)loop;
	if (l->phase != PHASE_UP || c->watch)
		return;
	r = make_link(&fds, c->role, &err);
	if (r == 0)
		r = start_child(l, c->role, &fds, &err);
	if (r == 0 && fd_send(l->children[ROLE_GATEWAY].control_fd, &lost, sizeof(lost),
	                      &fds.link[c->role][1], 1) < 0)
		log_warn("daemon.child_not_informed", "name=%s", roles[c->role].name);
	close_all(&fds);
	if (r < 0) {
		log_error("daemon.start_failed", "name=%s error='%s'", roles[c->role].name,
		          err.message);
		loop_timer_set_in(c->rest, SECOND_US);
	}
}

static void start_pair(struct launcher *l)
{
	struct pair_fds fds = no_fds;
	struct err err;
	int r = 0;

	l->started_us = loop_now_us(l->loop);
	l->looked_us = l->started_us;
	l->idle_us = 0;
	l->was_killed = false;
	move(l, PHASE_STARTING, START_MAX_US);
	loop_timer_set_in(l->look, next_look_us(l));
	for (size_t i = 0; r == 0 && i < ROLE_GATEWAY; i++)
		r = make_link(&fds, (enum role)i, &err);
	if (r == 0)
		r = site_open_key(l->site, &fds.key, &err);
	for (size_t i = 0; r == 0 && i < ROLE_COUNT; i++)
		r = start_child(l, (enum role)i, &fds, &err);
	close_all(&fds);
	if (r < 0) { /* no fds or processes: a broker that did start sees its gateway gone */
		log_error("daemon.start_failed", "error='%s'", err.message);
		keep_err(l, &err);
		if (!is_running(l))
			on_pair_gone(l);
	}
}

/* Parts that end cannot be replaced any more, so the daemon exits. Sandboxes stay, and systemd
 * starts the daemon again. */
static void on_starter_lost(struct loop *loop, void *arg)
{
	struct launcher *l = arg;
	struct err err;

	(void)loop;
	(void)err_set(&err, ERR_INTERNAL, 0, "the process that starts the daemon's parts has died");
	l->has_err = false;
	if (!is_ending(l))
		on_stop(l->loop, l);
	keep_err(l, &err);
}

/* The starter keeps the rights that the launcher drops here. */
static int confine_itself(struct launcher *l, struct err *err)
{
	int r = confine_all(err);

	if (r < 0)
		return r;
	r = part_starter_open(&l->starter, l->loop, on_starter_lost, l);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot make the starter");
	return confine(&(struct confine_plan){.part = CONFINE_LAUNCHER}, err);
}

static void on_life_end(struct loop *loop, uint32_t events, void *arg)
{
	struct launcher *l = arg;

	if (!(events & (EPOLLHUP | EPOLLERR)))
		return;
	loop_io_removep(&l->life_io);
	on_stop(loop, l);
}

/* A private daemon ends when the process that started it ends, in any way. */
static int watch_life(struct launcher *l)
{
	int fd = l->site->config->life_fd;

	if (fd < 0)
		return 0;
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	return loop_io_add(l->loop, fd, 0, on_life_end, l,
	                   &l->life_io); /* epoll always reports a hang-up */
}

int launcher_run(const struct site *site, struct reload *reload,
                 void (*ready)(const struct site *site), struct err *err)
{
	struct launcher l = {
		.site = site, .starter = {.site = site, .reload = reload}, .ready = ready};
	int r = loop_new(&l.loop, err);

	if (r < 0)
		return r;
	r = confine_itself(&l, err);
	if (r < 0) {
		part_starter_close(&l.starter);
		loop_free(l.loop);
		return r;
	}
	for (size_t i = 0; i < ROLE_COUNT; i++) {
		struct child *c = &l.children[i];

		*c = (struct child){.launcher = &l,
		                    .role = (enum role)i,
		                    .control_fd = -1,
		                    .rest_us = ALONE_REST_US};
		c->rest = loop_timer_new(l.loop, on_rest_end, c);
	}
	l.timer = loop_timer_new(l.loop, on_patience_end, &l);
	l.look = loop_timer_new(l.loop, on_look, &l);
	(void)signal(SIGPIPE,
	             SIG_IGN); /* the ready fd's reader may be gone; children set their own */
	r = loop_signal_add(l.loop, SIGTERM, on_stop, &l);
	if (r == 0)
		r = loop_signal_add(l.loop, SIGINT, on_stop, &l);
	if (r == 0)
		r = loop_signal_add(l.loop, SIGHUP, on_reload, &l);
	if (r == 0)
		r = watch_life(&l);
	if (r == 0) {
		start_pair(&l);
		r = loop_run(l.loop);
	}
	if (r < 0)
		r = err_set(err, ERR_INTERNAL, -r, "the launcher's loop failed");
	else if (l.has_err) {
		*err = l.err;
		r = -ECHILD;
	}
	for (size_t i = 0; i < ROLE_COUNT; i++) {
		close_control(&l.children[i]);
		loop_timer_free(l.children[i].rest);
	}
	part_starter_close(&l.starter);
	loop_io_remove(l.life_io);
	loop_timer_free(l.timer);
	loop_timer_free(l.look);
	loop_free(l.loop);
	return r;
}
