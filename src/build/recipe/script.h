// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the steps run: the files of guest/build, as they are. */
extern const char script_archive[], script_state[], script_registries[], script_bootstrap[],
	script_kernel[], script_packages[], script_extras[], script_finish[], script_checks[],
	script_copy[], script_pull[], script_place[], script_fetch[], script_mount[], script_home[],
	script_part[], script_contents[], script_carry[];
