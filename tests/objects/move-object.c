// SPDX-License-Identifier: Apache-2.0
/*
 * move-object check|put|get KEY FILE [DIGEST]: what the member does with the store of objects,
 * whose settings are OBJECTS, ENDPOINT, REGION, CREDENTIALS and CA of the environment. KEY is one
 * letter, and stands for a project. Prints JSON; ends with 1 for a trouble.
 */
#include "base/fd.h"
#include "member/objects/transfer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct {
	struct loop *loop;
	struct store_pool *pool;
	struct object_keys keys;
	const char *file;
	int fd, status;
	char hex[DIGEST_HEX];
} rig;

static void tell(enum trouble trouble, const char *message)
{
	rig.status = trouble != TROUBLE_NONE;
	printf("{\"code\": \"%s\", \"message\": \"%s\", \"hint\": %s", trouble_code(trouble),
	       message, trouble_hint(trouble)[0] ? "true" : "false");
}

static void on_checked(const struct store_result *r, void *arg)
{
	(void)arg;
	tell((enum trouble)r->trouble, r->message);
	printf("}\n");
	loop_stop(rig.loop);
}

static void on_done(const struct transfer_result *r, void *arg)
{
	(void)arg;
	tell(r->trouble, r->message);
	printf(", \"digest\": \"%s\", \"chunks\": %" PRIu64 ", \"zero\": %" PRIu64
	       ", \"there\": %" PRIu64 "}\n",
	       rig.hex, r->n_chunks, r->n_zero, r->n_there);
	loop_stop(rig.loop);
}

static int hash_file(int fd, struct digest *ret)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	char piece[65536];
	ssize_t n;
	int r = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 ? 0 : -1;

	for (off_t at = 0; r == 0 && (n = pread(fd, piece, sizeof(piece), at)) > 0; at += n)
		r = EVP_DigestUpdate(ctx, piece, (size_t)n) == 1 ? 0 : -1;
	if (r == 0)
		r = EVP_DigestFinal_ex(ctx, ret->bytes, NULL) == 1 ? 0 : -1;
	EVP_MD_CTX_free(ctx);
	return r;
}

static int put(void)
{
	struct object_manifest m = {.claim = {.kind = OBJECT_IMAGE}};
	struct stat st;

	rig.fd = open(rig.file, O_RDONLY | O_CLOEXEC);
	if (rig.fd < 0 || fstat(rig.fd, &st) < 0 || hash_file(rig.fd, &m.claim.digest) < 0)
		return -1;
	m.claim.size = (uint64_t)st.st_size;
	digest_to_hex(&m.claim.digest, rig.hex);
	transfer_upload(rig.pool, &rig.keys, &m, rig.fd, "/tmp", on_done, NULL);
	return 0;
}

static int take(const struct object_manifest *m, char message[200], void *arg)
{
	(void)arg;
	if (m->claim.size > UINT64_C(1) << 30) {
		(void)snprintf(message, 200, "too large");
		return -1;
	}
	rig.fd = open(rig.file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return rig.fd;
}

static int get(const char *hex)
{
	static const struct transfer_target target = {.take = take, .done = on_done};
	struct digest digest;

	if (digest_parse(hex, &digest) < 0)
		return -1;
	transfer_download(rig.pool, &rig.keys, OBJECT_IMAGE, &digest, 0, "/tmp", &target);
	return 0;
}

int main(int argc, char **argv)
{
	const struct store_config config = {.objects = getenv("OBJECTS"),
	                                    .endpoint = getenv("ENDPOINT"),
	                                    .region = getenv("REGION"),
	                                    .credentials = getenv("CREDENTIALS"),
	                                    .ca = getenv("CA")};
	uint8_t key[OBJECT_KEY] = {0};
	int fds[STORE_WORKERS];
	struct err err = {0};
	int r = 0;

	if (argc < 4 || !config.objects)
		return 2;
	key[0] = (uint8_t)argv[2][0];
	object_keys_derive(key, &rig.keys);
	rig.file = argv[3];
	for (size_t i = 0; r == 0 && i < STORE_WORKERS; i++)
		r = store_worker_start(&config, &fds[i], &err);
	if (r == 0)
		r = loop_new(&rig.loop, &err);
	if (r == 0)
		r = store_pool_new(rig.loop, fds, STORE_WORKERS, &rig.pool);
	if (r < 0)
		return 2;
	if (strcmp(argv[1], "check") == 0)
		store_pool_do(rig.pool, &(struct store_job){.op = STORE_CHECK}, -1, on_checked,
		              NULL);
	else if (strcmp(argv[1], "put") == 0)
		r = put();
	else
		r = argc > 4 ? get(argv[4]) : -1;
	if (r < 0 || loop_run(rig.loop) < 0)
		return 2;
	return rig.status;
}
