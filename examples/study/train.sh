#!/bin/sh
# Train the built-in models from two further seeds: sh examples/study/train.sh FOLDER
# Four trainings of five to fifteen minutes each, on one thread; what is there is not trained again.
set -e
folder=${1:?give a folder for the models}
for seed in 1 2; do
    for name in nli mt; do
        place=$folder/$name-$seed
        [ -e "$place" ] && continue
        python -m "headtool.builtin.train_$name" --out "$place.part" --seed "$seed"
        mv "$place.part" "$place"
    done
done
