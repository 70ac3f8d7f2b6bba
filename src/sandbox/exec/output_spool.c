// SPDX-License-Identifier: Apache-2.0
/*
 * The file is a head and a ring. Positions count all bytes ever written to the ring and are taken
 * modulo its size; a record may wrap around the end. So a file never grows past its bound, on any
 * filesystem, however long the exec runs.
 *
 *	| file head: tail | ... record | record | (head) free (tail) record | record ... |
 *
 * A record is a fixed head and the data, which is written first. Its head carries what a gateway
 * that was killed needs to go on: the sequence number, and the bytes that came before it. To make
 * room, the tail in the file head is moved first, by at least a sixteenth of the ring so that this
 * is rare, and only then is anything overwritten. Reopening walks the records from the tail as long
 * as each has the next sequence number (records of an earlier lap have lower ones); only the last
 * one can be torn, and its CRC shows that.
 *
 * Skipped output is a jump in the sequence numbers and byte counts between two records, or after
 * the last one. A reader's place is found by a sparse index of positions in memory, or at once when
 * it continues where it was: the last few places are remembered.
 */
#include "sandbox/exec/output_spool.h"

#include "base/clock.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <zlib.h>

#define FILE_MAGIC   UINT64_C(0x31304c4f4f50535f) /* "_SPOOL01" */
#define RECORD_MAGIC UINT32_C(0x31636572)         /* "rec1" */
#define DATA_MAX     (64 * 1024)                  /* of one record */
#define RING_MIN     4096
#define INDEX_STEP   16 /* events an index entry: 8 bytes against at least 16 records on disk */
#define PLACES       4  /* readers that go on without a search */

struct file_head {
	uint64_t magic;
	uint64_t ring_size;
	uint64_t tail;     /* position of the oldest record */
	uint64_t tail_seq; /* its number, for the walk at reopening */
	uint64_t reserved[4];
};

struct record_head {
	uint32_t magic;
	uint32_t crc; /* of the head with 0 here, and the data */
	uint32_t len;
	uint8_t kind;
	uint8_t zero[3];
	uint64_t seq;
	uint64_t at_us;
	uint64_t before[2]; /* bytes of stdout and stderr that came before this record */
};

struct place { /* "after seq, total bytes had gone by; the next record is at pos" */
	uint64_t seq, total, pos;
};

struct spool {
	int dir_fd; /* borrowed */
	char *name;
	int fd; /* -1: not open */
	bool has_file;
	bool is_resting;
	uint64_t ring_size;
	uint64_t tail, head;         /* positions */
	uint64_t tail_seq, last_seq; /* tail_seq: the oldest record's number, when tail < head */
	uint64_t bytes[2];
	uint64_t *index; /* positions of the kept records whose number INDEX_STEP divides */
	size_t index_len, index_size;
	uint64_t index_first; /* number of index[0]; meaningful when index_len > 0 */
	struct place places[PLACES];
	size_t next_place;
	char *data; /* the event handed out last */
};

static void spool_forgetp(struct spool **sp)
{
	spool_free(*sp, /* unlink_file= */ false);
}

static size_t slot_of(uint8_t kind)
{
	assert(kind == SPOOL_STDOUT || kind == SPOOL_STDERR);
	return kind - SPOOL_STDOUT;
}

static uint64_t total_bytes(const struct spool *sp)
{
	return sp->bytes[0] + sp->bytes[1];
}

static size_t data_max(const struct spool *sp)
{
	return MIN((uint64_t)DATA_MAX, sp->ring_size / 4 - sizeof(struct record_head));
}

static int disk_error(int errnum, const char *what, struct err *err)
{
	bool is_full = errnum == ENOSPC || errnum == EDQUOT;

	return err_set(err, is_full ? ERR_HOST_DISK_FULL : ERR_INTERNAL, errnum,
	               "the host cannot %s the output's spool", what);
}

static int ring_write(const struct spool *sp, uint64_t pos, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		uint64_t at = pos % sp->ring_size;
		size_t want = (size_t)MIN((uint64_t)len, sp->ring_size - at);
		ssize_t n = pwrite(sp->fd, p, want, (off_t)(sizeof(struct file_head) + at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		pos += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int ring_read(const struct spool *sp, uint64_t pos, void *data, size_t len)
{
	char *p = data;

	while (len > 0) {
		uint64_t at = pos % sp->ring_size;
		size_t want = (size_t)MIN((uint64_t)len, sp->ring_size - at);
		ssize_t n = pread(sp->fd, p, want, (off_t)(sizeof(struct file_head) + at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
		p += n;
		pos += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static uint32_t record_crc(const struct record_head *head, const void *data)
{
	struct record_head copy = *head;
	uLong crc = crc32(0, NULL, 0);

	copy.crc = 0;
	crc = crc32(crc, (const Bytef *)&copy, sizeof(copy));
	return (uint32_t)crc32(crc, data, head->len);
}

static int write_file_head(struct spool *sp, uint64_t tail, uint64_t tail_seq)
{
	struct file_head head = {.magic = FILE_MAGIC,
	                         .ring_size = sp->ring_size,
	                         .tail = tail,
	                         .tail_seq = tail_seq};
	ssize_t n = pwrite(sp->fd, &head, sizeof(head), 0);

	if (n < 0)
		return -errno;
	return n == (ssize_t)sizeof(head) ? 0 : -ENOSPC;
}

static int open_file(struct spool *sp, struct err *err)
{
	int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;
	int r;

	if (sp->fd >= 0)
		return 0;
	sp->fd = openat(sp->dir_fd, sp->name, sp->has_file ? flags : flags | O_CREAT | O_TRUNC,
	                0600);
	if (sp->fd < 0)
		return disk_error(errno, "open", err);
	if (sp->has_file)
		return 0;
	r = write_file_head(sp, sp->tail, sp->tail_seq);
	if (r < 0) {
		(void)close(take_fd(&sp->fd));
		(void)unlinkat(sp->dir_fd, sp->name, 0);
		return disk_error(-r, "write", err);
	}
	sp->has_file = true;
	return 0;
}

static void index_add(struct spool *sp, uint64_t seq, uint64_t pos)
{
	if (seq % INDEX_STEP != 0)
		return;
	/* Skipped numbers leave holes in the sequence. The index then starts again after them, and
	 * earlier records are found by walking from the tail. */
	if (sp->index_len > 0 && sp->index_first + sp->index_len * INDEX_STEP != seq)
		sp->index_len = 0;
	if (sp->index_len == 0)
		sp->index_first = seq;
	if (sp->index_len == sp->index_size) {
		sp->index_size = sp->index_size ? sp->index_size * 2 : 8;
		sp->index = xrealloc(sp->index, sp->index_size * sizeof(*sp->index));
	}
	sp->index[sp->index_len++] = pos;
}

static void index_drop_before(struct spool *sp, uint64_t pos)
{
	size_t n = 0;

	while (n < sp->index_len && sp->index[n] < pos)
		n++;
	if (n == 0)
		return;
	sp->index_len -= n;
	sp->index_first += n * INDEX_STEP;
	memmove(sp->index, sp->index + n, sp->index_len * sizeof(*sp->index));
}

static bool head_is_sane(const struct spool *sp, const struct record_head *head)
{
	return head->magic == RECORD_MAGIC && head->len > 0 && head->len <= data_max(sp) &&
	       (head->kind == SPOOL_STDOUT || head->kind == SPOOL_STDERR);
}

static int read_head(const struct spool *sp, uint64_t pos, struct record_head *ret)
{
	int r = ring_read(sp, pos, ret, sizeof(*ret));

	if (r < 0)
		return r;
	return head_is_sane(sp, ret) ? 0 : -EBADMSG;
}

static uint64_t record_end(uint64_t pos, const struct record_head *head)
{
	return pos + sizeof(*head) + head->len;
}

/* Drops oldest records until size bytes are free. */
static int make_room(struct spool *sp, uint64_t size)
{
	uint64_t tail = sp->tail, tail_seq = sp->tail_seq;
	struct record_head head;
	int r;

	if (sp->head - tail + size <= sp->ring_size)
		return 0;
	size = MIN(size + sp->ring_size / 16, sp->ring_size);
	while (tail < sp->head && sp->head - tail + size > sp->ring_size) {
		r = read_head(sp, tail, &head);
		if (r < 0)
			return r;
		tail = record_end(tail, &head);
		tail_seq = head.seq + 1;
	}
	if (tail < sp->head) {
		r = read_head(sp, tail, &head);
		if (r < 0)
			return r;
		tail_seq = head.seq;
	}
	r = write_file_head(sp, tail, tail_seq);
	if (r < 0)
		return r;
	sp->tail = tail;
	sp->tail_seq = tail_seq;
	index_drop_before(sp, tail);
	return 0;
}

uint64_t spool_kept(const struct spool *sp)
{
	return sp->has_file ? sizeof(struct file_head) + sp->head - sp->tail : 0;
}

uint64_t spool_estimate(uint64_t last_seq, uint64_t bytes)
{
	if (bytes == 0)
		return 0;
	return sizeof(struct file_head) + last_seq * sizeof(struct record_head) + bytes;
}

/* Frees the disk blocks of positions that nobody reads any more. */
static void punch(const struct spool *sp, uint64_t from, uint64_t to)
{
	while (from < to) {
		uint64_t at = from % sp->ring_size, len = MIN(to - from, sp->ring_size - at);

		/* If the filesystem has no holes, the ring is overwritten later. */
		(void)!fallocate(sp->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		                 (off_t)(sizeof(struct file_head) + at), (off_t)len);
		from += len;
	}
}

void spool_shed(struct spool *sp, uint64_t bytes)
{
	uint64_t tail = sp->tail, tail_seq = sp->tail_seq;
	struct record_head head;

	if (!sp->has_file || open_file(sp, &(struct err){0}) < 0 || read_head(sp, tail, &head) < 0)
		return;
	while (record_end(tail, &head) < sp->head && tail - sp->tail < bytes) {
		tail = record_end(tail, &head);
		if (read_head(sp, tail, &head) < 0)
			return;
		tail_seq = head.seq;
	}
	if (tail == sp->tail || write_file_head(sp, tail, tail_seq) < 0)
		return;
	punch(sp, sp->tail, tail);
	sp->tail = tail;
	sp->tail_seq = tail_seq;
	index_drop_before(sp, tail);
}

void spool_drop(struct spool *sp)
{
	free(take_ptr(sp->data));
	if (sp->fd >= 0)
		(void)close(take_fd(&sp->fd));
	if (sp->has_file)
		(void)unlinkat(sp->dir_fd, sp->name, 0);
	sp->has_file = false;
	sp->tail = sp->head;
	sp->tail_seq = sp->last_seq + 1;
	sp->index_len = 0;
}

void spool_raise(struct spool *sp, uint64_t last_seq, uint64_t stdout_bytes, uint64_t stderr_bytes)
{
	if (sp->last_seq >= last_seq)
		return;
	sp->last_seq = last_seq;
	sp->bytes[0] = MAX(sp->bytes[0], stdout_bytes);
	sp->bytes[1] = MAX(sp->bytes[1], stderr_bytes);
}

static int put_one(struct spool *sp, uint8_t kind, const void *data, size_t len)
{
	struct record_head head = {
		.magic = RECORD_MAGIC,
		.len = (uint32_t)len,
		.kind = kind,
		.seq = sp->last_seq + 1,
		.at_us = clock_wall_us(),
		.before = {sp->bytes[0], sp->bytes[1]},
	};
	int r = make_room(sp, sizeof(head) + len);

	if (r < 0)
		return r;
	head.crc = record_crc(&head, data);
	r = ring_write(sp, sp->head + sizeof(head), data, len);
	if (r == 0)
		r = ring_write(sp, sp->head, &head, sizeof(head));
	if (r < 0)
		return r; /* the place is written again by the next one */
	if (sp->tail == sp->head)
		sp->tail_seq = head.seq;
	index_add(sp, head.seq, sp->head);
	sp->head = record_end(sp->head, &head);
	sp->last_seq = head.seq;
	sp->bytes[slot_of(kind)] += len;
	return 0;
}

int spool_put(struct spool *sp, uint8_t kind, const void *data, size_t len, struct err *err)
{
	const char *p = data;
	int r = open_file(sp, err);

	if (r < 0)
		return r;
	sp->is_resting = false;
	while (len > 0) {
		size_t n = MIN(len, data_max(sp));

		r = put_one(sp, kind, p, n);
		if (r < 0)
			return disk_error(-r, "write", err);
		p += n;
		len -= n;
	}
	return 0;
}

void spool_skip(struct spool *sp, uint8_t kind, uint64_t len)
{
	if (len == 0)
		return;
	sp->last_seq++;
	sp->bytes[slot_of(kind)] += len;
}

static void remember(struct spool *sp, uint64_t seq, uint64_t total, uint64_t pos)
{
	sp->places[sp->next_place++ % PLACES] =
		(struct place){.seq = seq, .total = total, .pos = pos};
}

static struct place *recall(struct spool *sp, uint64_t seq)
{
	for (size_t i = 0; i < PLACES; i++)
		if (sp->places[i].seq == seq && seq > 0)
			return &sp->places[i];
	return NULL;
}

/* Where to begin walking for the first record with a number above after. */
static uint64_t walk_from(const struct spool *sp, uint64_t after)
{
	uint64_t n;

	if (sp->index_len == 0 || after + 1 < sp->index_first)
		return sp->tail;
	n = MIN((after + 1 - sp->index_first) / INDEX_STEP, (uint64_t)sp->index_len - 1);
	return sp->index[n];
}

/* Returns 1 with the first record after `after`, or 0 if there is none. */
static int find_record(struct spool *sp, uint64_t after, const struct place *place,
                       uint64_t *ret_pos, struct record_head *ret)
{
	uint64_t pos = place && place->pos >= sp->tail ? place->pos : walk_from(sp, after);

	while (pos < sp->head) {
		int r = read_head(sp, pos, ret);

		if (r < 0)
			return r;
		if (ret->seq > after) {
			*ret_pos = pos;
			return 1;
		}
		pos = record_end(pos, ret);
	}
	return 0;
}

/* Estimates the bytes written up to an event that is no longer kept and whose place is not
 * remembered. */
static uint64_t estimate(uint64_t seq, uint64_t known_seq, uint64_t known_total)
{
	if (known_seq == 0)
		return 0;
	return (uint64_t)((double)known_total * (double)seq / (double)known_seq);
}

static void fill_gap(struct spool *sp, uint64_t after, const struct place *place, uint64_t to_seq,
                     uint64_t to_total, uint64_t pos, struct spool_event *ret)
{
	uint64_t from = place ? place->total : MIN(estimate(after, to_seq, to_total), to_total);

	*ret = (struct spool_event){
		.seq = to_seq,
		.at_us = clock_wall_us(),
		.kind = SPOOL_GAP,
		.lost_bytes = to_total - from,
		.lost_events = to_seq - after,
	};
	remember(sp, to_seq, to_total, pos);
}

static int read_event(struct spool *sp, uint64_t pos, const struct record_head *head,
                      struct spool_event *ret)
{
	int r;

	sp->data = xrealloc(sp->data, (size_t)head->len + 1);
	r = ring_read(sp, pos + sizeof(*head), sp->data, head->len);
	if (r < 0)
		return r;
	*ret = (struct spool_event){.seq = head->seq,
	                            .at_us = head->at_us,
	                            .kind = head->kind,
	                            .data = sp->data,
	                            .len = head->len};
	remember(sp, head->seq, head->before[0] + head->before[1] + head->len,
	         record_end(pos, head));
	return 1;
}

static int at_end(struct spool *sp)
{
	free(take_ptr(sp->data));
	if (sp->is_resting)
		spool_rest(sp);
	return 0;
}

int spool_next(struct spool *sp, uint64_t after, struct spool_event *ret, struct err *err)
{
	const struct place *place = recall(sp, after);
	struct record_head head;
	uint64_t pos;
	int r = 0;

	if (after >= sp->last_seq)
		return at_end(sp);
	if (sp->has_file) {
		r = open_file(sp, err);
		if (r < 0)
			return r;
		r = find_record(sp, after, place, &pos, &head);
		if (r < 0)
			return disk_error(-r, "read", err);
	}
	if (r == 0) {
		fill_gap(sp, after, place, sp->last_seq, total_bytes(sp), sp->head, ret);
		return 1;
	}
	if (head.seq > after + 1) {
		fill_gap(sp, after, place, head.seq - 1, head.before[0] + head.before[1], pos, ret);
		return 1;
	}
	r = read_event(sp, pos, &head, ret);
	return r < 0 ? disk_error(-r, "read", err) : r;
}

uint64_t spool_last_seq(const struct spool *sp)
{
	return sp->last_seq;
}

uint64_t spool_bytes(const struct spool *sp, uint8_t kind)
{
	return sp->bytes[slot_of(kind)];
}

void spool_rest(struct spool *sp)
{
	sp->is_resting = true;
	free(take_ptr(sp->data));
	if (sp->fd >= 0)
		(void)close(take_fd(&sp->fd));
}

static struct spool *spool_alloc(int dir_fd, const char *name, uint64_t bytes_max)
{
	struct spool *sp = xnew0(struct spool);

	sp->dir_fd = dir_fd;
	sp->name = xstrdup(name);
	sp->fd = -1;
	sp->ring_size = MAX(bytes_max, (uint64_t)RING_MIN);
	sp->tail_seq = 1;
	return sp;
}

int spool_new(int dir_fd, const char *name, uint64_t bytes_max, struct spool **ret, struct err *err)
{
	(void)err;
	*ret = spool_alloc(dir_fd, name, bytes_max);
	return 0;
}

static bool is_torn(const struct spool *sp, uint64_t pos, const struct record_head *head)
{
	auto_free char *data = malloc(head->len);

	return !data || ring_read(sp, pos + sizeof(*head), data, head->len) < 0 ||
	       record_crc(head, data) != head->crc;
}

/* Counts the records after the tail, up to the first incomplete one. */
static void walk_records(struct spool *sp, const struct file_head *file)
{
	uint64_t pos = file->tail, seq = file->tail_seq;
	struct record_head head = {0}, last = {0};
	uint64_t last_pos = 0;

	sp->tail = sp->head = file->tail;
	sp->tail_seq = file->tail_seq;
	sp->last_seq = file->tail_seq - 1;
	while (pos - file->tail < sp->ring_size && read_head(sp, pos, &head) == 0 &&
	       head.seq >= seq && record_end(pos, &head) - file->tail <= sp->ring_size) {
		/* Checks one record behind: only the last may be torn; those before it are complete
		 * by their order. */
		if (last.len > 0)
			sp->head = record_end(last_pos, &last);
		last = head;
		last_pos = pos;
		index_add(sp, head.seq, pos);
		seq = head.seq + 1;
		pos = record_end(pos, &head);
	}
	if (last.len == 0)
		return;
	sp->last_seq = last.seq - 1;
	sp->bytes[0] = last.before[0];
	sp->bytes[1] = last.before[1];
	if (is_torn(sp, last_pos, &last)) {
		if (last.seq % INDEX_STEP == 0)
			sp->index_len--;
		return;
	}
	sp->head = record_end(last_pos, &last);
	sp->last_seq = last.seq;
	sp->bytes[slot_of(last.kind)] += last.len;
}

int spool_reopen(int dir_fd, const char *name, uint64_t bytes_max, struct spool **ret,
                 uint64_t *ret_offset, struct err *err)
{
	auto_call(spool_forgetp) struct spool *sp = spool_alloc(dir_fd, name, bytes_max);
	struct file_head head;
	ssize_t n;

	sp->fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (sp->fd < 0 && errno != ENOENT)
		return disk_error(errno, "open", err);
	if (sp->fd >= 0) {
		n = pread(sp->fd, &head, sizeof(head), 0);
		if (n < 0)
			return disk_error(errno, "read", err);
		if (n == (ssize_t)sizeof(head)) {
			if (head.magic != FILE_MAGIC || head.ring_size < RING_MIN ||
			    head.tail_seq == 0)
				return disk_error(EBADMSG, "read", err);
			sp->has_file = true;
			sp->ring_size = head.ring_size; /* the bound it was made with */
			walk_records(sp, &head);
		}
		/* Else the gateway died before the first event was written: the file is made
		 * again. */
		(void)close(take_fd(&sp->fd));
	}
	*ret_offset = total_bytes(sp);
	*ret = take_ptr(sp);
	return 0;
}

void spool_free(struct spool *sp, bool unlink_file)
{
	if (!sp)
		return;
	if (unlink_file && sp->has_file)
		(void)unlinkat(sp->dir_fd, sp->name, 0);
	if (sp->fd >= 0)
		(void)close(sp->fd);
	free(sp->index);
	free(sp->data);
	free(sp->name);
	free(sp);
}

void spool_remove(int dir_fd, const char *name)
{
	(void)unlinkat(dir_fd, name, 0);
}
