#!/bin/sh
# Train the built-in classifier from another seed: sh examples/study/train.sh FOLDER
# About ten minutes on one thread; a model that is there is not trained again.
set -e
folder=${1:?give a folder for the models}
for seed in 1; do
    place=$folder/nli-$seed
    [ -e "$place" ] && continue
    python -m headtool.builtin.train_nli --out "$place.part" --seed "$seed"
    mv "$place.part" "$place"
done
