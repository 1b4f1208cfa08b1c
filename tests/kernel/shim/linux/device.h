/* SPDX-License-Identifier: MIT */
/* <linux/device.h>: a device is what owns blocks of memory; it has only as many as tests want.
 */
#ifndef KERNEL_SHIM_DEVICE_H
#define KERNEL_SHIM_DEVICE_H

#include <linux/err.h>
#include <linux/slab.h>

#define SHIM_DEVICE_BLOCKS 64

struct device {
	void *blocks[SHIM_DEVICE_BLOCKS];
};

static inline struct device *root_device_register(const char *name)
{
	struct device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);

	(void)name;
	return dev ? dev : ERR_PTR(-ENOMEM);
}

static inline void root_device_unregister(struct device *dev)
{
	for (int i = 0; i < SHIM_DEVICE_BLOCKS; i++)
		kfree(dev->blocks[i]);
	kfree(dev);
}

static inline void *devm_kmalloc(struct device *dev, size_t size, gfp_t gfp)
{
	for (int i = 0; i < SHIM_DEVICE_BLOCKS; i++)
		if (!dev->blocks[i])
			return dev->blocks[i] = kmalloc(size, gfp);
	return NULL;
}

static inline void devm_kfree(struct device *dev, const void *block)
{
	for (int i = 0; i < SHIM_DEVICE_BLOCKS; i++)
		if (dev->blocks[i] == block)
			dev->blocks[i] = NULL;
	kfree(block);
}

#define device_unregister(dev) root_device_unregister(dev)
#define devm_kzalloc(dev, size, gfp) devm_kmalloc((dev), (size), (gfp) | __GFP_ZERO)

#endif
