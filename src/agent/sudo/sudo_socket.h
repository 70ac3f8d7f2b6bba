// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The socket for `sudo` inside. Set-uid programs cannot work under no_new_privs, so the agent runs
 * the command as root for any process in the sandbox that asks, with the asker's own fds. Root here
 * is only root of the sandbox's user namespace, and the client may use `user: "root"` anyway.
 *
 *	asker --> u32 length, request (sudo_request_encode), fds 0, 1, 2, cwd
 *	asker --> u8 signal, any number of times
 *	      <-- u8 how (enum exit_how), u32 value, str message; then the end
 *
 * And for forks of a zygote (zygote_arrival.h):
 *
 *	fork --> u32 SUDO_SOCKET_ARRIVAL, tag
 *	     <-- u32 length, cwd and environment, fds 0 to 3, perhaps an imprint; then the end
 *
 * And for who writes the imprint of a kernel (imprint_arrival.h):
 *
 *	writer --> u32 SUDO_SOCKET_IMPRINT, tag
 *	writer --> i32 errno, with 0 the imprint's fd
 */
#include "agent/agent.h"
#include "base/buf.h"

/* Abstract, so that no file inside can stand in its way; the net namespace keeps it private. */
#define SUDO_SOCKET_NAME     "cloche-sudo"
#define SUDO_REQUEST_MAX     (220 * 1024)
#define SUDO_SOCKET_ARRIVAL  0xffffffffU /* in the length's place: one that comes to stay */
#define SUDO_SOCKET_IMPRINT  0xfffffffeU /* likewise: one that writes an imprint */
#define SUDO_SOCKET_TAG_SIZE 40          /* room for an id */
#define SUDO_SOCKET_FDS      4           /* stdin, stdout, stderr, working directory */

struct sudo_request {
	char *user;
	char **argv; /* NULL-terminated */
	size_t argc;
	char **env;
	size_t envc;
	bool has_whole_env; /* -E: env is all of it, else it goes on top of the defaults */
};
void sudo_request_done(struct sudo_request *r);
must_check int sudo_request_encode(const struct sudo_request *r, struct buf *out);
must_check int sudo_request_decode(const void *data, size_t len, struct sudo_request *ret);

must_check int sudo_socket_new(struct agent *a, struct sudo_socket **ret, struct err *err);
/* One that has knocked with this tag need wait no longer. */
void sudo_socket_introduce(struct sudo_socket *d, const char *tag);
void sudo_socket_on_reaped(struct sudo_socket *d, pid_t pid, int status);
