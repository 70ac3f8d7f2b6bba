// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The parts of the erofs format that our images have: what mkfs.erofs 1.5 writes with our options,
 * and the device table. All numbers are little-endian, as on every machine that cloche runs on.
 */
#include <assert.h>
#include <stdint.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "erofs is little-endian");

#define EROFS_MAGIC        0xe0f5e1e2U
#define EROFS_SUPER_AT     1024
#define EROFS_BLOCK_BITS   12
#define EROFS_BLOCK        (1U << EROFS_BLOCK_BITS)
#define EROFS_SLOT         32  /* an inode begins at a multiple, which is its number */
#define EROFS_DEVICE_SLOT  128 /* an entry of the device table, and the unit of its place */
#define EROFS_COMPAT_MTIME 0x2U
#define EROFS_NAME_MAX     255

enum { /* feature_incompat; the kernel gives two meanings to some of them */
       EROFS_ZERO_PADDING = 0x1,
       EROFS_COMPRESSION = 0x2, /* its settings are behind the superblock; large clusters */
       EROFS_DEVICES = 0x8,
};

enum erofs_layout {
	EROFS_PLAIN = 0,      /* blocks */
	EROFS_INLINE = 2,     /* blocks, and the rest behind the inode */
	EROFS_COMPRESSED = 3, /* blocks, and an index of them behind the inode */
};

struct erofs_super {
	uint32_t magic, checksum, feature_compat;
	uint8_t block_bits, n_slots;
	uint16_t root;
	uint64_t n_inodes, time_s;
	uint32_t time_ns, n_blocks, meta_block, xattr_block;
	uint8_t uuid[16];
	char label[16];
	uint32_t feature_incompat;
	uint16_t algorithms, n_devices, devices_at;
	uint8_t dir_block_bits, n_xattr_prefixes;
	uint32_t xattr_prefixes_at;
	uint64_t packed;
	uint8_t reserved[24];
} __attribute__((packed));
static_assert(sizeof(struct erofs_super) == 128, "no padding");

struct erofs_lz4_settings { /* behind the superblock */
	uint16_t size, distance_max, cluster_blocks_max;
	uint8_t reserved[10];
} __attribute__((packed));
static_assert(sizeof(struct erofs_lz4_settings) == 16, "no padding");

struct erofs_device {
	char tag[64]; /* here: the digest of an image, in hexadecimal */
	uint32_t n_blocks;
	uint32_t first; /* the address of its first block among those of all devices */
	uint8_t reserved[56];
} __attribute__((packed));
static_assert(sizeof(struct erofs_device) == EROFS_DEVICE_SLOT, "no padding");

struct erofs_compact_inode {
	uint16_t format, n_xattrs, mode, nlink;
	uint32_t size, reserved, data, number;
	uint16_t uid, gid;
	uint32_t reserved2;
} __attribute__((packed));
static_assert(sizeof(struct erofs_compact_inode) == 32, "no padding");

struct erofs_extended_inode {
	uint16_t format, n_xattrs, mode, reserved;
	uint64_t size;
	uint32_t data, number, uid, gid;
	uint64_t mtime_s;
	uint32_t mtime_ns, nlink;
	uint8_t reserved2[16];
} __attribute__((packed));
static_assert(sizeof(struct erofs_extended_inode) == 64, "no padding");

struct erofs_dirent {
	uint64_t inode;
	uint16_t name_at; /* in the block */
	uint8_t type, reserved;
} __attribute__((packed));
static_assert(sizeof(struct erofs_dirent) == 12, "no padding");

/* Before the index of a compressed file. */
struct erofs_map_header {
	uint32_t reserved;
	uint16_t advice;
	uint8_t algorithm, cluster_bits;
} __attribute__((packed));
static_assert(sizeof(struct erofs_map_header) == 8, "no padding");

enum {                           /* advice */
       EROFS_ADVICE_SHORT = 0x1, /* the index has packs of 16 entries too */
       EROFS_ADVICE_LARGE = 0x6, /* clusters have several blocks */
};
