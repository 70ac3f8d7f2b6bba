// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Reads all that the settings name and the gateway and the wall are going to read, and keeps
 * nothing. A daemon that has to refuse its settings does so before it makes room for layers, which
 * is gigabytes and takes seconds.
 */
#include "daemon/config/config.h"

must_check int settings_check(const struct config *c, struct err *err);
