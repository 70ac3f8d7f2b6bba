// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The header block of tar, POSIX.1-1988 with the prefix field. */
struct tar_head {
	char name[100];
	char mode[8];
	char uid[8];
	char gid[8];
	char size[12];
	char mtime[12];
	char checksum[8];
	char type;
	char target[100];
	char magic[6];
	char version[2];
	char uname[32];
	char gname[32];
	char dev_major[8];
	char dev_minor[8];
	char prefix[155];
	char padding[12];
};
