package sandbox

// foreign has nothing to try: the processors of this kind may lack 32-bit programs.
func foreign() {}
