// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The reading ends of a channel's pipes, or its terminal: read while the window has room. */
#include "agent/process/channel.h"

/* Takes fd, also when it fails. */
must_check int source_open(struct source *s, int fd, enum frame_stream stream, bool is_pty);
void source_close(struct source *s);
void source_resume(struct source *s); /* the window has room again */
void source_owe(struct source *s);    /* its process has ended: notes what is still in the pipe */
