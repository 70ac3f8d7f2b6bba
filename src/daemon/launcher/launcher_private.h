// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What launcher.c, pair_start.c and part_watch.c share. */
#include "base/units.h"
#include "daemon/launcher/part_starter.h"
#include "daemon/watchdog.h"

enum role { ROLE_BROKER, ROLE_DIALER, ROLE_WALL, ROLE_MEMBER, ROLE_GATEWAY, ROLE_COUNT };
struct role_row {
	const char *name;
	enum child_part letter;
	bool is_alone; /* may die and be replaced alone; the gateway gets its successor */
};
extern const struct role_row launcher_roles[ROLE_COUNT];

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
	uint64_t started_us, stopping_us;
	uint64_t looked_us, idle_us; /* while all start: the last look, how long nobody was busy */
	unsigned quick_lives;
	bool was_up;
	bool wants_reload, wants_stop; /* asked for at a time when it cannot be done */
	bool was_killed;               /* the first of this pair to end, while it was up */
	bool has_err;
	struct err err;
};

/* pair_start.c */
bool launcher_has_role(const struct launcher *l, enum role role); /* on this node */
/* launcher.c */
bool launcher_is_running(const struct launcher *l); /* at least one part */
void launcher_move(struct launcher *l, enum phase phase, uint64_t patience_us);
void launcher_keep_err(struct launcher *l, const struct err *err);
void launcher_on_pair_gone(struct launcher *l); /* called when all are gone */
void launcher_on_child_end(struct loop *loop, int wait_status, void *child);
void launcher_on_control(struct loop *loop, uint32_t events, void *child);
void launcher_on_patience_end(struct loop *loop, void *launcher);
void launcher_read_control(struct child *c); /* all that lies there */
void launcher_send_signal(const struct child *c, int signo);
/* What the gateway is told about a lost part, since its clients may wait for that part. */
struct child_loss launcher_loss_of(const struct child *c);

/* pair_start.c */
void launcher_start_pair(struct launcher *l);
void launcher_on_rest_end(struct loop *loop, void *child);

/* part_watch.c */
void launcher_on_look(struct loop *loop, void *launcher);
uint64_t launcher_next_look_us(const struct launcher *l);
