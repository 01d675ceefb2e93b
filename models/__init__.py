"""The networks of the text as plain PyTorch, and the images that they learn from.

============= ================================================================
`mlp`         dense layers: two for images, three for 512 numbers
`lenet`       LeNet as a function of a list of parameters, and as a module
`alexnet`     AlexNet for 28×28 images, whole and split over two devices
`resnet`      ResNet-18 for 28×28 images
`transformer` an encoder block, and a classifier that reads images row by row
`data`        Fashion-MNIST from IDX files, and batches in an order that repeats
============= ================================================================

Images are (batch, 1, 28, 28); networks for images return a score per class, (batch, 10). All that is random when a
network is made comes from PyTorch's own generator, so ``torch.manual_seed`` before gives the same parameters. All
work in any floating-point type (``.double()``), and none decides anything by the values of a tensor, so that a trace
of one call holds for every call. Used from a checkout; not part of the installed package.
"""
