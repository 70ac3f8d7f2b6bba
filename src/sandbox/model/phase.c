// SPDX-License-Identifier: Apache-2.0
/*
 * The phases of a sandbox, and how it may move between them. tools/make-phases reads both tables
 * for the picture in docs/design/life-cycle.md.
 *
 * A move that is not in the table is a bug. It is logged and counted, and a test in which one
 * happens fails; the sandbox goes on, because ending the daemon would help nobody.
 */
#include "sandbox/model/phase.h"

#include <assert.h>

static const struct {
	const char *name;
	enum sandbox_state state;
} phases[] = {
	/* clang-format off */
	[PHASE_STARTING]     = {"starting",     SANDBOX_CREATING}, /* it is made, or made again over its files */
	[PHASE_WAKING]       = {"waking",       SANDBOX_CREATING}, /* it is made from the snapshot that it is paused in */
	[PHASE_WAKING_COLD]  = {"waking-cold",  SANDBOX_CREATING}, /* the same, without its memory */
	[PHASE_WAKE_FAILED]  = {"wake-failed",  SANDBOX_CREATING}, /* it could not be woken: what was begun is ended */
	[PHASE_RUNNING]      = {"running",      SANDBOX_RUNNING},  /* it can be called */
	[PHASE_FREEZING]     = {"freezing",     SANDBOX_PAUSING},  /* the broker freezes it in memory */
	[PHASE_SAVING]       = {"saving",       SANDBOX_PAUSING},  /* a snapshot of it is taken */
	[PHASE_UNSAVED]      = {"unsaved",      SANDBOX_PAUSING},  /* there is no snapshot: it waits for its link */
	[PHASE_THAWING]      = {"thawing",      SANDBOX_PAUSING},  /* its pause failed: the broker lets it go on */
	[PHASE_HALF_PAUSED]  = {"half-paused",  SANDBOX_PAUSING},  /* the broker could not be asked: the next call asks again */
	[PHASE_PUTTING_AWAY] = {"putting-away", SANDBOX_PAUSING},  /* all of it is on disk: what is in memory is ended */
	[PHASE_FROZEN]       = {"frozen",       SANDBOX_PAUSED},   /* it stands still in memory */
	[PHASE_REFREEZING]   = {"refreezing",   SANDBOX_PAUSED},   /* the daemon was restarted: the broker freezes it once more */
	[PHASE_RESUMING]     = {"resuming",     SANDBOX_PAUSED},   /* the broker lets it go on */
	[PHASE_ON_DISK]      = {"on-disk",      SANDBOX_PAUSED},   /* nothing of it is in memory */
	[PHASE_ENDING]       = {"ending",       SANDBOX_STOPPING}, /* the broker ends it */
	[PHASE_UNDOING]      = {"undoing",      SANDBOX_STOPPING}, /* the same: whoever waits for it to run is told afterwards */
	[PHASE_REMOVING]     = {"removing",     SANDBOX_STOPPING}, /* its execs and their output are removed */
	[PHASE_STOPPED]      = {"stopped",      SANDBOX_STOPPED},  /* it has ended */
	[PHASE_FAILED]       = {"failed",       SANDBOX_FAILED},   /* it has ended against its will */
	/* clang-format on */
};
static_assert(ARRAY_SIZE(phases) == PHASE_COUNT, "a phase has no row");

static const struct {
	enum sandbox_phase from, to;
	const char *why;
} moves[] = {
	/* clang-format off */
	{PHASE_STARTING,     PHASE_RUNNING,      "its agent answers, its source and network are there"},
	{PHASE_STARTING,     PHASE_UNDOING,      "it could not be created or resumed"},
	{PHASE_STARTING,     PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_WAKING,       PHASE_RUNNING,      "its agent answers"},
	{PHASE_WAKING,       PHASE_WAKE_FAILED,  "it could not be woken"},
	{PHASE_WAKING,       PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_WAKING_COLD,  PHASE_RUNNING,      "its agent answers"},
	{PHASE_WAKING_COLD,  PHASE_WAKE_FAILED,  "it could not be woken"},
	{PHASE_WAKING_COLD,  PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_WAKE_FAILED,  PHASE_ON_DISK,      "nothing of it is left in memory"},
	{PHASE_WAKE_FAILED,  PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_RUNNING,      PHASE_FREEZING,     "a pause in memory"},
	{PHASE_RUNNING,      PHASE_SAVING,       "a pause to disk"},
	{PHASE_RUNNING,      PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_FREEZING,     PHASE_FROZEN,       "it stands still"},
	{PHASE_FREEZING,     PHASE_THAWING,      "it could not be frozen, or only in part"},
	{PHASE_FREEZING,     PHASE_HALF_PAUSED,  "the broker takes no more requests"},
	{PHASE_FREEZING,     PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_SAVING,       PHASE_PUTTING_AWAY, "its row says where it is saved"},
	{PHASE_SAVING,       PHASE_UNSAVED,      "it could not be saved"},
	{PHASE_SAVING,       PHASE_HALF_PAUSED,  "the broker is gone"},
	{PHASE_SAVING,       PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_UNSAVED,      PHASE_THAWING,      "its link is up"},
	{PHASE_UNSAVED,      PHASE_HALF_PAUSED,  "the broker takes no more requests"},
	{PHASE_UNSAVED,      PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_THAWING,      PHASE_RUNNING,      "it goes on"},
	{PHASE_THAWING,      PHASE_FREEZING,     "it is paused in memory instead"},
	{PHASE_THAWING,      PHASE_HALF_PAUSED,  "the broker could not do it"},
	{PHASE_THAWING,      PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_HALF_PAUSED,  PHASE_FREEZING,     "a pause is asked for again"},
	{PHASE_HALF_PAUSED,  PHASE_THAWING,      "a resume, or a restart of the daemon"},
	{PHASE_HALF_PAUSED,  PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_PUTTING_AWAY, PHASE_ON_DISK,      "nothing of it is left in memory"},
	{PHASE_PUTTING_AWAY, PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_FROZEN,       PHASE_RESUMING,     "a resume"},
	{PHASE_FROZEN,       PHASE_REFREEZING,   "a restart of the daemon"},
	{PHASE_FROZEN,       PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_REFREEZING,   PHASE_FROZEN,       "the broker has answered"},
	{PHASE_REFREEZING,   PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_RESUMING,     PHASE_RUNNING,      "it goes on"},
	{PHASE_RESUMING,     PHASE_FROZEN,       "the broker could not do it"},
	{PHASE_RESUMING,     PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_ON_DISK,      PHASE_WAKING,       "a resume"},
	{PHASE_ON_DISK,      PHASE_WAKING_COLD,  "a resume with memory: false"},
	{PHASE_ON_DISK,      PHASE_PUTTING_AWAY, "a restart of the daemon found it alive"},
	{PHASE_ON_DISK,      PHASE_ENDING,       "it is ended, or rolled back"},
	{PHASE_ENDING,       PHASE_REMOVING,     "it was deleted, and has had execs"},
	{PHASE_ENDING,       PHASE_STOPPED,      "nothing of it runs"},
	{PHASE_ENDING,       PHASE_FAILED,       "nothing of it runs, and it crashed or ran out of memory"},
	{PHASE_UNDOING,      PHASE_REMOVING,     "it was deleted, and has had execs"},
	{PHASE_UNDOING,      PHASE_STOPPED,      "nothing of it is left"},
	{PHASE_UNDOING,      PHASE_FAILED,       "its files are as they were"},
	{PHASE_REMOVING,     PHASE_STOPPED,      "they are gone"},
	{PHASE_REMOVING,     PHASE_FAILED,       "they are gone"},
	{PHASE_STOPPED,      PHASE_STARTING,     "a resume, of a persistent one"},
	{PHASE_STOPPED,      PHASE_ENDING,       "a delete, of a persistent one"},
	{PHASE_FAILED,       PHASE_STARTING,     "a resume, of a persistent one"},
	{PHASE_FAILED,       PHASE_ENDING,       "a delete, of a persistent one"},
	/* clang-format on */
};

const char *phase_name(enum sandbox_phase phase)
{
	return phases[phase].name;
}

enum sandbox_state phase_state(enum sandbox_phase phase)
{
	return phases[phase].state;
}

const char *phase_move(enum sandbox_phase from, enum sandbox_phase to)
{
	for (size_t i = 0; i < ARRAY_SIZE(moves); i++)
		if (moves[i].from == from && moves[i].to == to)
			return moves[i].why;
	return NULL;
}

enum sandbox_phase phase_of_row(enum sandbox_state state, bool is_on_disk, bool is_undone)
{
	switch (state) {
	case SANDBOX_CREATING:
		return is_on_disk ? PHASE_WAKING : PHASE_STARTING;
	case SANDBOX_RUNNING:
		return PHASE_RUNNING;
	case SANDBOX_PAUSING:
		return is_on_disk ? PHASE_PUTTING_AWAY : PHASE_HALF_PAUSED;
	case SANDBOX_PAUSED:
		return is_on_disk ? PHASE_ON_DISK : PHASE_FROZEN;
	case SANDBOX_STOPPING:
		return is_undone ? PHASE_UNDOING : PHASE_ENDING;
	case SANDBOX_STOPPED:
		return PHASE_STOPPED;
	case SANDBOX_FAILED:
	case SANDBOX_STATE_COUNT:
		break;
	}
	return PHASE_FAILED;
}
