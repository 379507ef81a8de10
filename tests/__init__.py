"""What is promised, tried. Helpers that several tests share lie beside this file."""
