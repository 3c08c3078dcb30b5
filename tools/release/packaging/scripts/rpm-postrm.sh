if [ "$1" -eq 0 ]; then gone; fi
