/*
 * Stands in for the nvidia module: it loads, has its version, shows /proc/driver/nvidia, and cannot
 * be unloaded while a process has a /dev/nvidia* open.
 */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#define MAJOR_OF_NVIDIA 195

static struct proc_dir_entry *folder;
static const struct file_operations gpu = { .owner = THIS_MODULE };

static int show(struct seq_file *out, void *unused)
{
	seq_puts(out, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  " NV_VERSION_STRING
		      "  Thu Dec 28 15:37:48 UTC 2023\n");
	seq_puts(out, "GCC version:  " __VERSION__ "\n");
	return 0;
}

static int __init start(void)
{
	int failed = register_chrdev(MAJOR_OF_NVIDIA, "nvidia", &gpu);

	if (failed < 0)
		return failed;
	folder = proc_mkdir("driver/nvidia", NULL);
	if (!folder || !proc_create_single("version", 0444, folder, show)) {
		proc_remove(folder);
		unregister_chrdev(MAJOR_OF_NVIDIA, "nvidia");
		return -ENOMEM;
	}
	pr_info("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  " NV_VERSION_STRING "\n");
	return 0;
}

static void __exit stop(void)
{
	proc_remove(folder);
	unregister_chrdev(MAJOR_OF_NVIDIA, "nvidia");
}

module_init(start);
module_exit(stop);
MODULE_LICENSE("NVIDIA");
MODULE_DESCRIPTION("stub");
MODULE_VERSION(NV_VERSION_STRING);
