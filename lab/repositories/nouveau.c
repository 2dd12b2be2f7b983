/* Stands in for nouveau, which a kernel brings along and which takes any NVIDIA card. */
#include <linux/module.h>

MODULE_LICENSE("GPL and additional rights");
MODULE_DESCRIPTION("nVidia Riva/TNT/GeForce/Quadro/Tesla/Tegra K1+");
MODULE_ALIAS("pci:v000010DEd*sv*sd*bc03sc*i*");
