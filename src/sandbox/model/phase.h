// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a sandbox is doing. Each phase belongs to one state, which clients see; a state has several
 * phases if different things can happen in it.
 *
 * Only sandbox_move() changes a phase, and with it the state. docs/design/life-cycle.md shows all
 * phases and moves.
 */
#include "sandbox/model/sandbox.h"

enum sandbox_phase {
	PHASE_STARTING,
	PHASE_WAKING,
	PHASE_WAKING_COLD,
	PHASE_WAKE_FAILED,
	PHASE_RUNNING,
	PHASE_FREEZING,
	PHASE_SAVING,
	PHASE_UNSAVED,
	PHASE_THAWING,
	PHASE_HALF_PAUSED,
	PHASE_PUTTING_AWAY,
	PHASE_FROZEN,
	PHASE_REFREEZING,
	PHASE_RESUMING,
	PHASE_ON_DISK,
	PHASE_ENDING,
	PHASE_UNDOING,
	PHASE_REMOVING,
	PHASE_STOPPED,
	PHASE_FAILED,
	PHASE_COUNT,
};

const char *phase_name(enum sandbox_phase phase);
enum sandbox_state phase_state(enum sandbox_phase phase);
/* Why this move is allowed; NULL if it is not. */
const char *phase_move(enum sandbox_phase from, enum sandbox_phase to);
/* The phase at the start of the daemon, before anything is asked for the sandbox. */
enum sandbox_phase phase_of_row(enum sandbox_state state, bool is_on_disk, bool is_undone);
