// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The program `sudo` inside a sandbox: asks the agent through its door (door.h). */
int sudo_main(int argc, char *argv[]);
