/* SPDX-License-Identifier: MIT */
/* Calls the program while it is being loaded: symbol_test.cpp. */
extern void library_is_loading(void);

__attribute__((constructor)) static void begin(void)
{
	library_is_loading();
}
