// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The kernel that vms start: an image as templates have (image.h), named by
 *
 *	DATA/kernels/current -> DIGEST
 *
 * It holds vmlinuz, vmlinux where there is an unpacked one, modules/NN-NAME.ko and a manifest. A
 * plain directory of the name `current` with the same files does as well, for an operator who
 * brings his own.
 */
#include "engine/layer/image.h"

/* *ret_fd is the directory, the caller's; *ret_digest is zero where it is no image. -ENOENT: there
 * is none yet. */
must_check int kernel_open(struct images *im, int data_fd, int *ret_fd, struct digest *ret_digest,
                           struct err *err);
/* From now on it is that one, which must be an image with a kernel in it. */
must_check int kernel_set(struct images *im, int data_fd, const struct digest *digest,
                          struct err *err);
/* The same for the host's own images, as struct engine has it. */
must_check int kernel_choose(struct guest_host *host, const struct digest *digest, struct err *err);
