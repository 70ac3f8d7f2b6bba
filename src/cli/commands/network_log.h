// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the network wall has decided about a sandbox, and the policy that this suggests. */
#include "cli/frame/command.h"

must_check int network_decisions(struct command *c, struct err *err);
must_check int network_suggest(struct command *c, struct err *err);
