// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Debian's Java keeps files in /etc that it does not start without, and the template 'host' has
 * none of the host's /etc. These few are copied: which machines there are to run, and the rules of
 * its cryptography. Files that may name proxies or passwords (net.properties, management) are not.
 */
#include "base/auto.h"

must_check int host_java_copy(int root_fd); /* nothing where the host has no Java */
