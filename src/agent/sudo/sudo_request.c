// SPDX-License-Identifier: Apache-2.0
/* The request of `sudo`, packed on one side and unpacked on the other. */
#include "agent/sudo/sudo_socket.h"
#include "proto/pack.h"
#include "proto/start.h"

#include <string.h>

static void free_words(char **words, size_t n)
{
	for (size_t i = 0; words && i < n; i++)
		free(words[i]);
	free(words);
}

void sudo_request_done(struct sudo_request *r)
{
	free(r->user);
	free_words(r->argv, r->argc);
	free_words(r->env, r->envc);
	memset(r, 0, sizeof(*r));
}

static void pack_words(struct pack *p, char *const *words, size_t n)
{
	pack_u32(p, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		pack_str(p, words[i]);
}

int sudo_request_encode(const struct sudo_request *r, struct buf *out)
{
	struct pack p = {.out = out};

	pack_str(&p, r->user);
	pack_u8(&p, r->has_whole_env);
	pack_words(&p, r->argv, r->argc);
	pack_words(&p, r->env, r->envc);
	return p.error;
}

static char **unpack_words(struct unpack *u, size_t *ret_n)
{
	size_t n = unpack_u32(u);
	char **words;

	if (u->is_bad || n > START_ARGS_MAX) {
		u->is_bad = true;
		return NULL;
	}
	words = xnew0n(char *, n + 1);
	for (size_t i = 0; i < n && !u->is_bad; i++)
		words[i] = unpack_str(u, START_BYTES_MAX);
	*ret_n = n;
	return words;
}

int sudo_request_decode(const void *data, size_t len, struct sudo_request *ret)
{
	struct unpack u = {.data = data, .len = len};
	struct sudo_request r = {0};
	uint8_t whole;

	r.user = unpack_str(&u, START_NAME_MAX);
	whole = unpack_u8(&u);
	r.has_whole_env = whole == 1;
	r.argv = unpack_words(&u, &r.argc);
	r.env = unpack_words(&u, &r.envc);
	for (size_t i = 0; !u.is_bad && i < r.envc; i++)
		if (!strchr(r.env[i], '=') || r.env[i][0] == '=')
			u.is_bad = true;
	if (unpack_end(&u) < 0 || whole > 1 || r.argc == 0 || r.argv[0][0] == '\0') {
		sudo_request_done(&r);
		return -EPROTO;
	}
	*ret = r;
	return 0;
}
