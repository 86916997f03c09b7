from meshwright.program import main

main()
