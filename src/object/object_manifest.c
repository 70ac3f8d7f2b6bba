// SPDX-License-Identifier: Apache-2.0
#include "object/object_manifest.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

static const char magic[8] = {'c', 'l', 'o', 'm', 'a', 'n', 'f', '1'};

struct head {
	char magic[8];
	uint32_t kind, n_bases, n_chunks, zero;
	uint64_t size, generation;
	struct digest digest, class, seal;
};

static_assert(sizeof(struct head) == OBJECT_MANIFEST_HEAD, "the format has no holes");

void object_manifest_done(struct object_manifest *m)
{
	free(m->chunks);
	*m = (struct object_manifest){0};
}

size_t object_chunks_of(uint64_t size)
{
	return (size_t)(size / OBJECT_CHUNK + (size % OBJECT_CHUNK ? 1 : 0));
}

size_t object_chunk_len(uint64_t size, size_t chunk)
{
	return (size_t)MIN(size - (uint64_t)chunk * OBJECT_CHUNK, OBJECT_CHUNK);
}

static bool is_sound(const struct object_claim *c, size_t n_bases, size_t n_chunks)
{
	return c->kind >= OBJECT_IMAGE && c->kind < OBJECT_KIND_END && c->size > 0 &&
	       c->size <= OBJECT_SIZE_MAX && n_chunks == object_chunks_of(c->size) &&
	       n_bases <= OBJECT_BASES_MAX && (n_bases == 0 || c->kind == OBJECT_IMAGE) &&
	       (c->generation == 0 || c->kind != OBJECT_IMAGE) && !digest_is_zero(&c->digest);
}

int object_manifest_write(const struct object_manifest *m, struct buf *out)
{
	const struct head head = {.kind = htole32((uint32_t)m->claim.kind),
	                          .n_bases = htole32((uint32_t)m->n_bases),
	                          .n_chunks = htole32((uint32_t)m->n_chunks),
	                          .size = htole64(m->claim.size),
	                          .generation = htole64(m->claim.generation),
	                          .digest = m->claim.digest,
	                          .class = m->claim.class,
	                          .seal = m->seal};
	const size_t before = out->len;
	int r;

	if (!is_sound(&m->claim, m->n_bases, m->n_chunks))
		return -EINVAL;
	r = buf_append(out, magic, sizeof(magic));
	if (r == 0)
		r = buf_append(out, &head.kind, sizeof(head) - sizeof(magic));
	if (r == 0)
		r = buf_append(out, m->bases, m->n_bases * DIGEST_LEN);
	if (r == 0)
		r = buf_append(out, m->chunks, m->n_chunks * DIGEST_LEN);
	if (r < 0)
		buf_truncate(out, before);
	return r;
}

int object_manifest_read(const void *data, size_t len, struct object_manifest *ret)
{
	const uint8_t *rest = data;
	struct object_manifest m = {0};
	struct head head;

	if (len < sizeof(head) || len > OBJECT_MANIFEST_MAX)
		return -EBADMSG;
	memcpy(&head, rest, sizeof(head));
	rest += sizeof(head);
	m.claim = (struct object_claim){.kind = (enum object_kind)le32toh(head.kind),
	                                .size = le64toh(head.size),
	                                .generation = le64toh(head.generation),
	                                .digest = head.digest,
	                                .class = head.class};
	m.seal = head.seal;
	m.n_bases = le32toh(head.n_bases);
	m.n_chunks = le32toh(head.n_chunks);
	if (memcmp(head.magic, magic, sizeof(magic)) != 0 || head.zero != 0 ||
	    !is_sound(&m.claim, m.n_bases, m.n_chunks) ||
	    len != sizeof(head) + (m.n_bases + m.n_chunks) * DIGEST_LEN)
		return -EBADMSG;
	memcpy(m.bases, rest, m.n_bases * DIGEST_LEN);
	m.chunks = xcalloc(m.n_chunks, DIGEST_LEN);
	memcpy(m.chunks, rest + m.n_bases * DIGEST_LEN, m.n_chunks * DIGEST_LEN);
	*ret = m;
	return 0;
}
