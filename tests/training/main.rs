//! What training needs, on every device, against plain code in `f64` and finite differences; and the networks of the examples, whole.

#[path = "../common/mod.rs"]
mod common;
mod elementwise;
mod gat;
mod loss;
mod networks;

#[path = "../../examples/train_gcn/data.rs"]
mod data;
#[path = "../../examples/train_gcn/features.rs"]
mod features;
#[path = "../../examples/train_gcn/model.rs"]
mod model;
#[path = "../../examples/train_gcn/network.rs"]
mod network;
#[path = "../../examples/train_gcn/parameter.rs"]
mod parameter;
#[path = "../../examples/train_gcn/passes.rs"]
mod passes;
#[path = "../../examples/train_gcn/training.rs"]
mod training;

use std::process::ExitCode;

use common::on_every_device;
use warpsparse::{
    Device, Error, Map, Scalar,
    learning::{self, Adam, Dropout, Labels, StepCounter},
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    macro_rules! both {
        ($($module:ident::$name:ident),*) => {$(
            trials.extend(on_every_device(concat!(stringify!($name), "_f32"), $module::$name::<f32>));
            trials.extend(on_every_device(concat!(stringify!($name), "_f64"), $module::$name::<f64>));
        )*};
    }
    both!(elementwise::dropout, elementwise::derivatives, elementwise::adam, elementwise::glorot);
    both!(loss::losses, loss::accuracies, loss::ends_of_the_range);
    both!(networks::same_seed_same_bits);
    trials.extend(on_every_device("masks_are_independent", elementwise::masks_are_independent));
    trials.extend(on_every_device("gradients_are_finite_differences", networks::gradients));
    trials.extend(on_every_device("training_learns", networks::learns));
    trials.extend(on_every_device("what_does_not_fit_is_an_error", what_does_not_fit));
    common::run(trials)
}

fn t<T: Scalar>(value: f64) -> T {
    T::from_f64(value)
}

fn what_does_not_fit(device: &Device) {
    let wrong_length = |result: warpsparse::Result<()>, expected: &str| {
        let Err(Error::LengthMismatch { what, .. }) = result else { panic!("{result:?} for {expected}") };
        assert_eq!(what, expected);
    };
    let elsewhere = |result: warpsparse::Result<()>, expected: &str| {
        let Err(Error::DeviceMismatch { what, .. }) = result else { panic!("{result:?} for {expected}") };
        assert_eq!(what, expected);
    };
    let other = common::other(device);
    let (step, other_step) = (StepCounter::new(device).unwrap(), StepCounter::new(&other).unwrap());
    let (mut x, short) = (device.zeros::<f32>(6).unwrap(), device.zeros::<f32>(5).unwrap());
    let far = other.zeros::<f32>(6).unwrap();

    let dropout = Dropout::new(0.5, 1).unwrap();
    wrong_length(dropout.apply_from(&step, &short, &mut x), "x");
    elsewhere(dropout.apply_from(&step, &far, &mut x), "x");
    elsewhere(dropout.apply(&other_step, &mut x), "the step counter");
    wrong_length(learning::map_backward(Map::Relu, &short, &mut x), "x");
    elsewhere(learning::map_backward(Map::Relu, &far, &mut x), "x");

    let mut adam = Adam::<f32>::new(device, 6, 0.1).unwrap();
    wrong_length(adam.update(&step, &short, &mut x), "the gradient");
    wrong_length(adam.update(&step, &far, x.slice_mut(1..).unwrap()), "the weights");
    elsewhere(adam.update(&step, &far, &mut x), "the gradient");
    elsewhere(adam.update(&other_step, &device.zeros(6).unwrap(), &mut x), "the step counter");
    let mut elsewheres = Adam::<f32>::new(&other, 6, 0.1).unwrap();
    elsewhere(elsewheres.update(&step, &device.zeros(6).unwrap(), &mut x), "the moments");

    let labels = Labels::new(device, 3, &[Some(2), None]).unwrap();
    assert_eq!((labels.rows(), labels.classes(), labels.labelled()), (2, 3, 1));
    let (z, mut number) = (device.zeros_dense::<f32>((2, 3)).unwrap(), device.scalar(0.0).unwrap());
    let [tall, wide] = [(3, 3), (2, 4)].map(|size| device.zeros_dense::<f32>(size).unwrap());
    let (far, far_labels) = (other.zeros_dense((2, 3)).unwrap(), Labels::new(&other, 3, &[None; 2]).unwrap());
    for of in [learning::cross_entropy::<f32>, learning::accuracy::<f32>] {
        wrong_length(of(tall.view(), &labels, &mut number), "the column of the logits");
        wrong_length(of(wide.view(), &labels, &mut number), "the row of the logits");
        elsewhere(of(far.view(), &labels, &mut number), "the logits");
        elsewhere(of(z.view(), &far_labels, &mut number), "the labels");
    }
    let [mut tall, mut wide] = [tall, wide];
    wrong_length(learning::cross_entropy_backward(&z, &labels, &mut tall), "the column of the gradient");
    wrong_length(learning::cross_entropy_backward(&z, &labels, &mut wide), "the row of the gradient");

    let invalid = |error: Error, expected: &str| assert_eq!(error.to_string(), format!("invalid option: {expected}"));
    let problem = "label 3 of row 1: there are 3 classes";
    invalid(Labels::new(device, 3, &[None, Some(3)]).unwrap_err(), problem);
    let labels = Labels::new(device, usize::MAX, &[Some(u32::MAX)]);
    assert!(labels.unwrap_err().to_string().contains("label 4294967295 of row 0"));
    for probability in [-0.1, 1.0, f64::NAN] {
        let problem = format!("a dropout probability of {probability}: it must be at least 0 and less than 1");
        invalid(Dropout::new(probability, 1).unwrap_err(), &problem);
    }
    let adam = || Adam::<f32>::new(device, 1, 0.1).unwrap();
    let problem = "a learning rate of -1: it must be at least 0 and less than inf";
    invalid(Adam::<f32>::new(device, 1, -1.0).unwrap_err(), problem);
    invalid(adam().betas(0.9, 1.0).unwrap_err(), "a beta2 of 1: it must be at least 0 and less than 1");
    invalid(adam().epsilon(f64::NAN).unwrap_err(), "a epsilon of NaN: it must be at least 0 and less than inf");
    invalid(adam().weight_decay(-0.5).unwrap_err(), "a weight decay of -0.5: it must be at least 0 and less than inf");
}
