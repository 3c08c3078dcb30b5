if [ "$1" -gt 1 ]; then installed OLD; else installed NEW; fi
