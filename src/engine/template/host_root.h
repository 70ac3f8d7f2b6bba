// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The template `host`, which needs no set-up: a generated skeleton of everything but /usr, and the
 * host's own /usr below an overlay.
 *
 *	DATA/templates/host-HASH/root/	etc home opt var …, symlinks into usr
 *	DATA/templates/host-HASH/usr/	what we put over the host's /usr: the `sudo` of the inside
 *	DATA/templates/host-HASH/fit/	what we put over an image (fittings.h)
 *
 * Nothing of the host's /etc, /home, /root, /var or /opt is in it, except the names of installed
 * packages (so that apt inside knows which dependencies are met), the choices of alternatives, and
 * the certificates that the host trusts. The hash covers all sources of the skeleton.
 */
#include "base/err.h"

/* Builds it if this one is not there yet. *ret_fd is the directory HASH. */
must_check int host_root_open(const char *data_dir, int agent_fd, const char *kernels_dir,
                              int *ret_fd, struct err *err);
/* Removes skeletons of other hashes; only while no sandbox runs on one. */
void host_root_prune(const char *data_dir, int template_fd);
