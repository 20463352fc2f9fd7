"""What models of images look at: the contrast of neighbours, tests of pixels."""
