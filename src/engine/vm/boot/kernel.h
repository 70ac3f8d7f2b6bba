// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The kernel of vms: an image like those of templates (image.h), named by
 *
 *	DATA/kernels/current -> DIGEST
 *
 * It holds vmlinuz, perhaps an unpacked vmlinux, modules/NN-NAME.ko and a manifest. Instead of the
 * link, `current` may be a plain directory with the same files, for an operator's own kernel.
 */
#include "engine/layer/image.h"

/* *ret_fd is the directory, which the caller owns; *ret_digest is zero if it is not an image.
 * -ENOENT: there is none yet. */
must_check int kernel_open(struct images *im, int data_fd, int *ret_fd, struct digest *ret_digest,
                           struct err *err);
/* Makes this image, which must have a kernel in it, the current one. */
must_check int kernel_set(struct images *im, int data_fd, const struct digest *digest,
                          struct err *err);
/* The same for the host's own images: set_kernel() of struct engine. */
must_check int kernel_choose(struct guest_host *host, const struct digest *digest, struct err *err);
