// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Loop devices: a file as a block device that goes away with its last user. */
#include "base/err.h"

#include <stdbool.h>

#define LOOPDEV_SIZE 32

/*
 * Attaches the file, or finds the device that it is already attached to: two devices over one file
 * would be two writers. *ret_fd keeps the device alive until it is mounted; name gets "/dev/loopN".
 */
must_check int loopdev_attach(const char *file, bool is_read_only, char name[LOOPDEV_SIZE],
                              int *ret_fd, struct err *err);
bool loopdev_is_attached(const char *file); /* to some device */
