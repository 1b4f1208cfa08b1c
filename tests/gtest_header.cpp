/* SPDX-License-Identifier: MIT */
/* Nothing: GoogleTest's header is compiled for this, and used for all programs of tests. */
