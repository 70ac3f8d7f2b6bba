// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Shared by saving and reviving. */
#include "engine/guest/guest.h"

int memory_open_net(pid_t pid); /* its net namespace, or -1 and errno */
void memory_drop_save(struct guest *g);
void memory_drop_revival(struct guest *g);
